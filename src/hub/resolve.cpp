#include "hub/resolve.h"

#include <filesystem>

#include "hub/alias.h"
#include "hub/cache.h"
#include "hub/choose.h"

namespace martlet {
namespace {

namespace fs = std::filesystem;

Error not_found(const char* text, const std::string& where) {
  return {ErrorKind::io, "model_not_found", text, where};
}

Result<std::string> resolve_alias(const Alias& alias) {
  const std::string path = alias.path();
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  if (error) return not_found("the model is not here yet: fetch it with `martlet pull`", std::string(alias.name));
  if (bytes != alias.bytes)
    return not_found(
        "the model's file has the wrong size: remove it with `martlet rm` and fetch it with `martlet pull`", path);
  return path;
}

Result<std::string> resolve_hub(const std::string& model) {
  MARTLET_ASSIGN(const HubReference reference, parse_hub_reference(model));
  const CachedRepository repository(reference);
  const Result<ModelFiles> chosen = choose_model(list_models(repository.files()), reference.file);
  if (chosen) return (repository.snapshot() / chosen->front()).string();
  if (chosen.error().kind == ErrorKind::usage) return Error(chosen.error());
  return not_found("the model is not here yet: fetch it with `martlet pull`", model);
}

}  // namespace

Result<std::string> resolve_model(const std::string& model) {
  if (model.empty()) return resolve_alias(default_alias());
  if (const Alias* alias = find_alias(model)) return resolve_alias(*alias);
  if (model.starts_with("hf:")) return resolve_hub(model);
  std::error_code error;
  // What exists but cannot be opened is for the reader of the file to explain.
  if (fs::exists(model, error) || error) return model;
  return not_found(
      "no such file or alias; a model on the hub is written hf:owner/repository and fetched with `martlet pull`",
      model);
}

}  // namespace martlet
