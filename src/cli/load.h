#pragma once

// Opens a model for a command: file, tokenizer, template, backend and engine in one call.

#include <memory>
#include <string>

#include "base/error.h"
#include "chat/chat_template.h"
#include "file/model_file.h"
#include "martlet/engine.h"
#include "plan/ceiling.h"
#include "server/served_model.h"
#include "text/tokenizer.h"

namespace martlet::cli {

struct LoadOptions {
  std::string model;  // as the user wrote it; empty: the default model
  std::string backend = "cpu";
  bool invariant = false;  // a result has the same bits whatever shares its steps
  int32_t threads = 0;     // 0: one for each physical core that the process may use
  EngineOptions engine;
};

struct Loaded {
  std::string name;  // what the API calls it: alias, or the file's name without folder and extension
  std::string path;
  std::shared_ptr<const ModelFile> file;
  std::shared_ptr<const Tokenizer> tokenizer;
  Result<std::shared_ptr<const ChatTemplate>> chat_template;  // or why there is none
  std::unique_ptr<Engine> engine;
};

// A model's file, opened and not loaded: what is planned with it is what is loaded from it.
struct Opened {
  std::string path;
  std::shared_ptr<const ModelFile> file;
};
Result<Opened> open_model(const std::string& model);

Result<Loaded> load(const LoadOptions& options);
// The same from a file that is open, options.model being its name only.
Result<Loaded> load(const Opened& opened, const LoadOptions& options);

// What load() may use at most: of this machine, or of the backend's device.
Result<Ceiling> ceiling_of(const LoadOptions& options);
// What load() would take within that much memory, without loading anything.
Result<Plan> plan_model(const LoadOptions& options, const Ceiling& ceiling);
Result<Plan> plan_model(const Opened& opened, const LoadOptions& options, const Ceiling& ceiling);
// What the API calls a model that the user wrote as `model` and that lies at `path`.
std::string api_name(const std::string& model, const std::string& path);
// The model as a server answers from it, from now on.
std::shared_ptr<const server::ServedModel> served(Loaded loaded);

}  // namespace martlet::cli
