#pragma once

// The models that a server answers with: loaded when somebody wants them, unloaded when others need their memory.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "server/served_model.h"

namespace martlet::server {

// What a model may take. 0: what it takes by itself.
struct Allowance {
  int32_t context = 0;
  int64_t memory = 0;
};

// Where a model comes from. Called from one thread at a time.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  virtual const std::string& name() const = 0;
  // What loading it would take; reads headers only. Errors: those of the file, and of make_plan.
  virtual Result<Plan> plan(const Allowance& allowance) = 0;
  virtual Result<std::shared_ptr<const ServedModel>> load(const Allowance& allowance) = 0;
};

// Seconds that an idle model stays loaded; negative: until its memory is wanted.
using KeepAlive = std::chrono::duration<double>;
inline constexpr KeepAlive kKeepForever{-1};

enum class ModelState { unloaded, loading, loaded, unloading };
const char* name_of(ModelState state);

struct ModelInfo {
  std::string name;
  ModelState state = ModelState::unloaded;
  int64_t created = 0;   // seconds since 1970: when it was loaded
  int32_t context = 0;   // when loaded
  int64_t memory = 0;    // bytes of its plan, when loaded
  int32_t requests = 0;  // that use it now
  std::string error;     // code of the last failure to load it, until it succeeds
};

// Every member may be called from any thread. A model gets the context that it would have alone; when what others hold
// leaves too little, those that nobody uses are unloaded, least recently used first. A model that cannot fit beside
// those in use is refused, and they are not touched.
class ModelManager {
 public:
  using Model = std::shared_ptr<const ServedModel>;
  using Ready = std::function<void(Result<Model>)>;  // must not throw

  // `memory`: what all models together may take, and what the process takes besides them.
  explicit ModelManager(int64_t memory, KeepAlive keep_alive = kKeepForever);
  ~ModelManager();
  ModelManager(const ModelManager&) = delete;
  ModelManager& operator=(const ModelManager&) = delete;

  // The first one added is "default". Errors: ErrorKind::usage, `duplicate_name`.
  Status add(std::unique_ptr<ModelSource> source);
  void add(Model model);  // one that is loaded and stays

  // A lease of the model of that name: while it is held the model stays loaded. Nothing at once when it has to be
  // loaded first: then `ready` is called later, on the manager's thread, unless `wanted` says no by then. Errors:
  // `model_not_found`, `invalid_path`, `shutting_down`, `memory_in_use` (ErrorKind::unavailable), those of loading, and
  // `out_of_memory` where the system has none for that.
  std::optional<Result<Model>> acquire(const std::string& name, std::optional<KeepAlive> keep_alive,
                                       std::function<bool()> wanted, Ready ready);
  Result<Model> acquire_now(const std::string& name);  // waits

  int64_t memory() const;
  std::vector<ModelInfo> list() const;
  Result<ModelInfo> find(const std::string& name) const;
  std::vector<Model> loaded() const;     // not leases: drop them before anything blocks
  EngineStats retired() const;           // what unloaded models counted
  std::optional<Error> failure() const;  // why an engine cannot go on

  void drop_caches();  // of all loaded models
  void unload_idle();
  // Refuses new leases and lets the engines finish for `seconds`.
  void drain(double seconds);
  // Ends the manager's thread: no `ready` is called from now on, and nothing loaded or unloaded.
  void stop();

 private:
  struct State;
  std::shared_ptr<State> state_;  // leases keep it
};

}  // namespace martlet::server
