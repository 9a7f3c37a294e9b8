#include "cli/load.h"

#include <chrono>
#include <filesystem>

#include "base/printable.h"
#include "chat/prompt.h"
#include "cli/backends.h"
#include "engine/options.h"
#include "hub/alias.h"
#include "hub/resolve.h"

namespace martlet::cli {
namespace {

// One step takes a whole prefill chunk beside a decode row of every sequence.
Result<std::unique_ptr<Backend>> backend_for(const LoadOptions& options) {
  return make_backend({.name = options.backend,
                       .threads = options.threads,
                       .max_rows = options.engine.prefill_chunk + options.engine.max_sequences,
                       .invariant = options.invariant});
}

// What the caller asked for is not to blame when there is no usable one.
Result<std::shared_ptr<const ChatTemplate>> find_template(const ModelFile& file) {
  auto found = load_chat_template(file, false);
  if (!found) found.error().kind = ErrorKind::model;
  return found;
}

// The model may have more rows than the vocabulary has tokens, which spell nothing; fewer would leave tokens without a
// meaning, the control tokens that usually stand last among them.
Status check_vocabulary(const Tokenizer& tokenizer, const Engine& engine, const std::string& path) {
  if (tokenizer.size() <= engine.vocabulary()) return {};
  return Error{ErrorKind::model, "bad_vocab", "the vocabulary has more tokens than the model has rows for them", path};
}

}  // namespace

std::string api_name(const std::string& model, const std::string& path) {
  if (model.empty()) return std::string(default_alias().name);
  // Answers carry it as JSON, whatever bytes the file's name has.
  return find_alias(model) ? model : printable(std::filesystem::path(path).stem().string());
}

Result<Ceiling> ceiling_of(const LoadOptions& options) {
  MARTLET_ASSIGN(const std::unique_ptr<Backend> backend, backend_for(options));
  return memory_ceiling(options.engine.memory_ceiling, *backend);
}

Result<Opened> open_model(const std::string& model) {
  MARTLET_ASSIGN(std::string path, resolve_model(model));
  MARTLET_ASSIGN(std::shared_ptr<const ModelFile> file, ModelFile::open(path));
  return Opened{std::move(path), std::move(file)};
}

Result<Plan> plan_model(const LoadOptions& options, const Ceiling& ceiling) {
  MARTLET_ASSIGN(const Opened opened, open_model(options.model));
  return plan_model(opened, options, ceiling);
}

Result<Plan> plan_model(const Opened& opened, const LoadOptions& options, const Ceiling& ceiling) {
  MARTLET_ASSIGN(const std::unique_ptr<Backend> backend, backend_for(options));
  return plan_engine(*opened.file, *backend, ceiling, options.engine);
}

Result<Loaded> load(const LoadOptions& options) {
  MARTLET_ASSIGN(const Opened opened, open_model(options.model));
  return load(opened, options);
}

Result<Loaded> load(const Opened& opened, const LoadOptions& options) {
  const auto& [path, file] = opened;
  MARTLET_ASSIGN(const std::shared_ptr<const Tokenizer> tokenizer, Tokenizer::create(*file));
  MARTLET_ASSIGN(std::unique_ptr<Backend> backend, backend_for(options));
  MARTLET_ASSIGN(std::unique_ptr<Engine> engine, Engine::create(file, std::move(backend), options.engine));
  MARTLET_TRY(check_vocabulary(*tokenizer, *engine, path));
  return Loaded{api_name(options.model, path), path, file, tokenizer, find_template(*file), std::move(engine)};
}

std::shared_ptr<const server::ServedModel> served(Loaded loaded) {
  const int64_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return std::make_shared<server::ServedModel>(
      server::ServedModel{std::move(loaded.name), now, std::move(loaded.tokenizer), std::move(loaded.chat_template),
                          std::move(loaded.engine)});
}

}  // namespace martlet::cli
