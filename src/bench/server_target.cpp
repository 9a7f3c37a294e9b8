#include "bench/server_target.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/ranges.h>

#include "bench/http_instance.h"
#include "bench/server_kinds.h"
#include "net/child_process.h"

namespace martlet::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using net::ChildProcess;

constexpr auto kLook = std::chrono::milliseconds(20);
constexpr auto kStartTime = std::chrono::minutes(10);    // large models are read from a slow disk
constexpr auto kPrepareTime = std::chrono::minutes(10);  // or copied
constexpr auto kStopTime = std::chrono::seconds(10);
constexpr auto kPrintTime = std::chrono::seconds(30);

class ServerInstance : public HttpInstance {
 public:
  ServerInstance(Endpoint endpoint, std::unique_ptr<ChildProcess> child)
      : HttpInstance(std::move(endpoint)), child_(std::move(child)) {}
  ~ServerInstance() override {
    child_->terminate();
    for (const auto end = Clock::now() + kStopTime; !child_->ended() && Clock::now() < end;)
      std::this_thread::sleep_for(kLook);
  }
  int process() const override { return child_->pid(); }

 private:
  std::unique_ptr<ChildProcess> child_;  // killed when it goes, if it is still there
};

// Exit status once it ended; nothing where it took longer than `time` or `stop` said so.
std::optional<int> run_to_end(const std::vector<std::string>& words, const std::string& log, std::chrono::seconds time,
                              const StopAsked& stop) {
  const auto child = ChildProcess::start(words, log);
  if (!child) return std::nullopt;
  for (const auto end = Clock::now() + time; Clock::now() < end && !stop();) {
    if (const auto status = (*child)->ended()) return status;
    std::this_thread::sleep_for(kLook);
  }
  return std::nullopt;
}

std::string last_line(const std::string& path) {
  std::ifstream in(path);
  std::string last;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) last = line.substr(0, 200);
  return last;
}

class ServerTarget : public Target {
 public:
  ServerTarget(const ServerKind& kind, ServerSettings settings)
      : Target({}), kind_(kind), settings_(std::move(settings)) {
    if (settings_.program.empty()) settings_.program = kind.program;
    values_ = {{"model", fs::absolute(settings_.model).lexically_normal().string()},
               {"context", std::to_string(settings_.context)},
               {"streams", std::to_string(settings_.streams)},
               {"threads", std::to_string(settings_.threads)},
               {"files", settings_.files}};
    program_ = expand_words(settings_.program, values_);
    values_["program"] = program_.front();
    info_.name = settings_.name;
    std::vector<std::string> told = command();
    for (std::string& word : told) word = without_folders(word);
    info_.command = fmt::format("{}", fmt::join(told, " "));
    info_.version = printed(kind_.version);
    info_.request = kind_.request;
    info_.on_processor = printed(kind_.device) == "cpu";
  }

  Result<std::unique_ptr<Instance>> start(const StopAsked& stop) override {
    MARTLET_ASSIGN(const uint16_t port, net::free_port());
    values_["port"] = std::to_string(port);
    MARTLET_TRY(write_file());
    MARTLET_ASSIGN(std::unique_ptr<ChildProcess> child, ChildProcess::start(command(), log()));
    Endpoint endpoint{"127.0.0.1", port, "", std::string(kind_.model), "", std::string(kind_.request)};
    MARTLET_ASSIGN(const std::string listed, wait_for(endpoint, *child, stop));
    if (endpoint.model.empty()) endpoint.model = listed;
    if (!kind_.prepare.empty() && run_to_end(words(kind_.prepare), log(), kPrepareTime, stop) != 0)
      return failed("the engine could not prepare the model; its log says why");
    return std::unique_ptr<Instance>(std::make_unique<ServerInstance>(std::move(endpoint), std::move(child)));
  }

 private:
  std::string log() const { return settings_.files + "/" + settings_.name + ".log"; }
  Error failed(const char* text) const { return {ErrorKind::io, "engine_failed", text, log()}; }

  // With the environment in front, where there is one.
  std::vector<std::string> words(std::string_view text) const {
    std::vector<std::string> out = expand_words(kind_.environment, values_);
    if (!out.empty()) out.insert(out.begin(), "env");
    for (std::string& word : expand_words(text, values_)) out.push_back(std::move(word));
    return out;
  }
  std::vector<std::string> command() const {
    std::vector<std::string> out = words("");
    out.insert(out.end(), program_.begin(), program_.end());
    for (std::string& word : expand_words(kind_.arguments, values_)) out.push_back(std::move(word));
    return out;
  }

  // The last line that a short-lived program prints; empty when it fails.
  std::string printed(std::string_view words) const {
    if (words.empty()) return "";
    const std::string out = settings_.files + "/" + settings_.name + ".printed";
    std::error_code ignored;
    fs::remove(out, ignored);
    const auto status = run_to_end(expand_words(words, values_), out, kPrintTime, [] { return false; });
    const std::string line = status == 0 ? last_line(out) : "";
    fs::remove(out, ignored);
    return line;
  }

  Status write_file() const {
    if (kind_.file.empty()) return {};
    std::ofstream out(settings_.files + "/" + std::string(kind_.file));
    out << expand(kind_.file_text, values_);
    if (!out.flush())
      return Error{ErrorKind::io, "cannot_write", "a file of an engine cannot be written", settings_.files};
    return {};
  }

  Result<std::string> wait_for(const Endpoint& endpoint, ChildProcess& child, const StopAsked& stop) const {
    for (const auto end = Clock::now() + kStartTime; Clock::now() < end;) {
      if (stop()) return failed("stopped while the engine started");
      if (child.ended()) return failed("the engine ended instead of serving; its log says why");
      // A server may listen before it has a model to list, and list it before it takes requests.
      const auto name = endpoint.model.empty() ? first_model(endpoint) : std::optional(endpoint.model);
      const bool named = name && !name->empty();
      if (named && (kind_.ready.empty() || answers(endpoint, std::string(kind_.ready)))) return *name;
      std::this_thread::sleep_for(kLook);
    }
    return failed("the engine does not answer; its log may say why");
  }

  const ServerKind& kind_;
  ServerSettings settings_;
  Values values_;
  std::vector<std::string> program_;
};

}  // namespace

Result<std::unique_ptr<Target>> make_server_target(const ServerSettings& settings) {
  const ServerKind* kind = find_server_kind(settings.name);
  if (!kind) {
    std::string names;
    for (const ServerKind& k : server_kinds()) names += std::string(names.empty() ? "" : ", ") + std::string(k.name);
    return Error{ErrorKind::usage, "unknown_engine", "engines are NAME=URL or one of " + names, "--engines"};
  }
  if (fs::is_directory(settings.model) != kind->folder) {
    const char* text = kind->folder
                           ? "this engine reads a folder of safetensors: name one with --model-of ENGINE=FOLDER"
                           : "this engine reads a GGUF file: name one with --model-of ENGINE=FILE";
    return Error{ErrorKind::usage, "wrong_model", text, settings.name};
  }
  return std::unique_ptr<Target>(std::make_unique<ServerTarget>(*kind, settings));
}

}  // namespace martlet::bench
