#include "cli/load.h"

#include <filesystem>

#include "cli/backends.h"
#include "hub/alias.h"
#include "hub/resolve.h"

namespace martlet::cli {
namespace {

std::string api_name(const std::string& model, const std::string& path) {
  if (model.empty()) return std::string(default_alias().name);
  return find_alias(model) ? model : std::filesystem::path(path).stem().string();
}

Result<std::shared_ptr<const ChatTemplate>> find_template(const ModelFile& file) {
  const auto source = file.string("tokenizer.chat_template");
  if (!source) return Error{ErrorKind::request, "template_unsupported", "the model has no chat template", file.path()};
  return ChatTemplate::parse(*source);
}

}  // namespace

Result<Loaded> load(const LoadOptions& options) {
  MARTLET_ASSIGN(const std::string path, resolve_model(options.model));
  MARTLET_ASSIGN(const std::shared_ptr<const ModelFile> file, ModelFile::open(path));
  MARTLET_ASSIGN(const std::shared_ptr<const Tokenizer> tokenizer, Tokenizer::create(*file));
  // One step takes a whole prefill chunk beside a decode row of every sequence.
  MARTLET_ASSIGN(std::unique_ptr<Backend> backend,
                 make_backend({.name = options.backend,
                               .threads = options.threads,
                               .max_rows = options.engine.prefill_chunk + options.engine.max_sequences}));
  MARTLET_ASSIGN(std::unique_ptr<Engine> engine, Engine::create(file, std::move(backend), options.engine));
  return Loaded{api_name(options.model, path), path, file, tokenizer, find_template(*file), std::move(engine)};
}

}  // namespace martlet::cli
