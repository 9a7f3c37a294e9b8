#include "cli/served_files.h"

#include <algorithm>
#include <filesystem>
#include <regex>

#include "cli/memory_flags.h"

namespace martlet::cli {
namespace {

namespace fs = std::filesystem;
using server::Allowance;
using server::ServedModel;

// Measured: what a connection with a running stream takes, and requests of 16 MiB on the workers.
constexpr int64_t kConnectionBytes = 24 << 10, kBodyBytes = 4 << 20;

class ServedFile final : public server::ModelSource {
 public:
  ServedFile(LoadOptions options, const std::string& path, Ceiling ceiling,
             std::function<void(const std::string&)> note)
      : options_(std::move(options)),
        name_(api_name(options_.model, path)),
        ceiling_(std::move(ceiling)),
        note_(std::move(note)) {
    options_.engine.note = note_;
  }

  const std::string& name() const override { return name_; }

  Result<Plan> plan(const Allowance& allowance) override {
    const Ceiling beside{allowance.memory, "beside the other models"};
    MARTLET_ASSIGN(const Opened opened, open());
    Result<Plan> plan = plan_model(opened, within(allowance), allowance.memory > 0 ? beside : ceiling_);
    if (!plan) {
      opened_ = {};  // nobody loads it now, and the next one to ask looks up the name again
    } else if (allowance.context == 0) {
      fit_note_ = fit_note(*plan);
    }
    return plan;
  }

  Result<std::shared_ptr<const ServedModel>> load(const Allowance& allowance) override {
    MARTLET_ASSIGN(const Opened opened, open());
    opened_ = {};
    MARTLET_ASSIGN(Loaded loaded, cli::load(opened, within(allowance)));
    if (!loaded.chat_template) note_("this model's chat template cannot be used: chat requests will be refused");
    if (!fit_note_.empty()) note_(fit_note_);
    return served(std::move(loaded));
  }

 private:
  // What was opened for a plan is loaded too, unless there is something else under its name by then.
  Result<Opened> open() {
    if (!opened_.file || !opened_.file->is_current()) {
      MARTLET_ASSIGN(opened_, open_model(options_.model));
    }
    return opened_;
  }

  LoadOptions within(const Allowance& allowance) const {
    LoadOptions out = options_;
    if (allowance.context > 0) out.engine.context = allowance.context;
    if (allowance.memory > 0) out.engine.memory_ceiling = allowance.memory;
    return out;
  }

  LoadOptions options_;
  const std::string name_;
  const Ceiling ceiling_;
  const std::function<void(const std::string&)> note_;
  std::string fit_note_;  // of the last plan that was free to choose the context
  Opened opened_;         // from a plan to the load
};

}  // namespace

int64_t server_bytes(int connections) {
  return connections * kConnectionBytes + kBodyBytes;
}

std::unique_ptr<server::ModelSource> served_file(LoadOptions options, const std::string& path, const Ceiling& ceiling,
                                                 std::function<void(const std::string&)> note) {
  return std::make_unique<ServedFile>(std::move(options), path, ceiling, std::move(note));
}

Result<std::vector<std::string>> model_files(const std::string& folder) {
  static const std::regex later_part(R"(.*-\d{5}-of-\d{5}\.gguf)"), first_part(R"(.*-00001-of-\d{5}\.gguf)");
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const bool first = !std::regex_match(name, later_part) || std::regex_match(name, first_part);
    if (it->path().extension() == ".gguf" && first) out.push_back(it->path().string());
  }
  if (error) return Error{ErrorKind::io, "not_a_folder", "the folder of models cannot be read", "--models"};
  if (out.empty()) return Error{ErrorKind::io, "no_models", "the folder holds no .gguf file", "--models"};
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace martlet::cli
