#include "server/model_manager.h"

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/out_of_memory.h"
#include "server/model_name.h"

namespace martlet::server {
namespace {

using Clock = std::chrono::steady_clock;
using Model = ModelManager::Model;

Error shutting_down() {
  return {ErrorKind::unavailable, "shutting_down", "the server is shutting down", ""};
}

Error memory_in_use() {
  return {ErrorKind::unavailable, "memory_in_use",
          "models that are in use hold the memory that this one needs; try again when they are idle", ""};
}

struct Waiting {
  std::function<bool()> wanted;
  ModelManager::Ready ready;
};

struct Entry {
  std::string name;
  std::unique_ptr<ModelSource> source;  // null: stays loaded
  ModelState state = ModelState::unloaded;
  std::shared_ptr<const ServedModel> model;
  std::vector<Waiting> waiting;
  KeepAlive keep_alive = kKeepForever;
  Clock::time_point last_used{};
  int32_t uses = 0;
  std::string error;

  bool idle() const { return state == ModelState::loaded && uses == 0 && source; }
  // When it is to be unloaded though nobody needs the memory.
  std::optional<Clock::time_point> expiry() const {
    if (!idle() || keep_alive.count() < 0) return std::nullopt;
    return last_used + std::chrono::duration_cast<Clock::duration>(keep_alive);
  }
};

}  // namespace

const char* name_of(ModelState state) {
  constexpr const char* kNames[] = {"unloaded", "loading", "loaded", "unloading"};
  return kNames[static_cast<int>(state)];
}

struct ModelManager::State : std::enable_shared_from_this<State> {
  State(int64_t memory, KeepAlive keep_alive) : memory(memory), keep_alive(keep_alive) {}

  struct Lease;

  Entry* find(const std::string& name) const;
  Model lease(Entry& entry);
  void end_lease(Entry& entry);
  static ModelInfo describe(const Entry& entry);

  // The thread's.
  void run();
  std::optional<Clock::time_point> next_expiry() const;
  Entry* to_load() const;
  void load(Entry& entry, std::unique_lock<std::mutex>& lock);
  Result<Model> load_if_possible(Entry& entry, std::unique_lock<std::mutex>& lock);
  Result<Model> load_within_memory(Entry& entry, std::unique_lock<std::mutex>& lock);
  bool make_room(std::unique_lock<std::mutex>& lock);
  void unload(Entry& entry, std::unique_lock<std::mutex>& lock);
  void unload_expired(std::unique_lock<std::mutex>& lock);
  int64_t left() const;

  const int64_t memory;
  const KeepAlive keep_alive;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<Entry>> entries;
  EngineStats retired;
  bool closing = false, stopping = false, unload_all_idle = false;
  std::thread thread;
};

Entry* ModelManager::State::find(const std::string& name) const {
  for (const auto& entry : entries) {
    if (entry->name == name) return entry.get();
  }
  return name == "default" && !entries.empty() ? entries.front().get() : nullptr;
}

struct ModelManager::State::Lease {
  std::shared_ptr<State> state;
  Entry* entry = nullptr;
  ~Lease() {
    if (state) state->end_lease(*entry);
  }
};

// The lease points at the model without owning it: its owner is the entry, so that the last one to let go of a lease,
// often the engine's own thread, never destroys the engine.
Model ModelManager::State::lease(Entry& entry) {
  const auto held = std::make_shared<Lease>();  // counts for nothing until it is whole: the mutex is held
  ++entry.uses;
  entry.last_used = Clock::now();
  held->state = shared_from_this();
  held->entry = &entry;
  return {held, entry.model.get()};
}

void ModelManager::State::end_lease(Entry& entry) {
  const std::lock_guard lock(mutex);
  entry.last_used = Clock::now();
  if (--entry.uses == 0) changed.notify_all();
}

ModelInfo ModelManager::State::describe(const Entry& entry) {
  ModelInfo out{.name = entry.name, .state = entry.state, .requests = entry.uses, .error = entry.error};
  if (entry.model) {
    out.created = entry.model->created;
    out.context = entry.model->engine->context();
    out.memory = entry.model->engine->plan().model_bytes();
  }
  return out;
}

void ModelManager::State::run() {
  std::unique_lock lock(mutex);
  while (!stopping) {
    unload_expired(lock);
    if (Entry* entry = to_load()) {
      load(*entry, lock);
      continue;
    }
    if (const auto expiry = next_expiry()) {
      changed.wait_until(lock, *expiry);
    } else {
      changed.wait(lock);
    }
  }
}

std::optional<Clock::time_point> ModelManager::State::next_expiry() const {
  std::optional<Clock::time_point> next;
  for (const auto& entry : entries) {
    if (const auto expiry = entry->expiry()) next = std::min(*expiry, next.value_or(*expiry));
  }
  return next;
}

Entry* ModelManager::State::to_load() const {
  for (const auto& entry : entries) {
    if (!entry->waiting.empty()) return entry.get();
  }
  return nullptr;
}

void ModelManager::State::load(Entry& entry, std::unique_lock<std::mutex>& lock) {
  std::erase_if(entry.waiting, [](const Waiting& each) { return !each.wanted(); });
  if (entry.waiting.empty()) return;
  entry.state = ModelState::loading;
  Result<Model> loaded = load_if_possible(entry, lock);
  entry.state = loaded ? ModelState::loaded : ModelState::unloaded;
  insist([&] { entry.error = loaded ? "" : loaded.error().code; });
  if (loaded) {
    entry.model = *loaded;
    entry.last_used = Clock::now();
  }
  std::vector<std::pair<Ready, Result<Model>>> calls;
  insist([&] { calls.reserve(entry.waiting.size()); });
  for (Waiting& each : entry.waiting) {
    insist([&] {
      Result<Model> result = loaded ? Result<Model>(lease(entry)) : Result<Model>(loaded.error());
      calls.emplace_back(std::move(each.ready), std::move(result));
    });
  }
  entry.waiting.clear();
  lock.unlock();
  for (auto& [ready, result] : calls) ready(std::move(result));
  calls.clear();
  lock.lock();
}

int64_t ModelManager::State::left() const {
  int64_t out = memory;
  for (const auto& entry : entries) {
    if (entry->model) out -= entry->model->engine->plan().model_bytes();
  }
  return out;
}

Result<Model> ModelManager::State::load_if_possible(Entry& entry, std::unique_lock<std::mutex>& lock) {
  std::optional<Error> error;
  try {
    return closing ? Result<Model>(shutting_down()) : load_within_memory(entry, lock);
  } catch (const std::bad_alloc&) {
    insist([&] { error = out_of_memory(); });
  } catch (const std::system_error&) {  // of a thread that could not be made
    insist([&] {
      error = Error{ErrorKind::memory, "out_of_memory", "the system has no more threads for this model", ""};
    });
  }
  if (!lock.owns_lock()) lock.lock();
  return std::move(*error);
}

// The context is the one that the model has alone: what else happens to be loaded must not change answers.
Result<Model> ModelManager::State::load_within_memory(Entry& entry, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const Result<Plan> alone = entry.source->plan({});
  lock.lock();
  if (!alone) return alone.error();
  for (;;) {
    const Allowance allowance{alone->context, left()};
    lock.unlock();
    Result<Plan> beside = entry.source->plan(allowance);
    Result<Model> loaded = beside ? entry.source->load(allowance) : Result<Model>(beside.error());
    lock.lock();
    if (loaded || loaded.error().kind != ErrorKind::memory) return loaded;
    if (!make_room(lock)) return left() == memory ? loaded : memory_in_use();
  }
}

bool ModelManager::State::make_room(std::unique_lock<std::mutex>& lock) {
  Entry* victim = nullptr;
  for (const auto& entry : entries) {
    if (entry->idle() && (!victim || entry->last_used < victim->last_used)) victim = entry.get();
  }
  if (victim) unload(*victim, lock);
  return victim != nullptr;
}

// Its threads end and its pages are given back outside the lock: nobody waits for them.
void ModelManager::State::unload(Entry& entry, std::unique_lock<std::mutex>& lock) {
  entry.state = ModelState::unloading;
  std::shared_ptr<const ServedModel> model = std::move(entry.model);
  retired.add_counters(model->engine->stats());
  lock.unlock();
  // Somebody who listed the loaded models may look at this one for another moment.
  while (model.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  model.reset();
  lock.lock();
  entry.state = ModelState::unloaded;
}

void ModelManager::State::unload_expired(std::unique_lock<std::mutex>& lock) {
  const bool all = std::exchange(unload_all_idle, false);
  for (size_t i = 0; i < entries.size(); ++i) {
    Entry& entry = *entries[i];
    const auto expiry = entry.expiry();
    if (entry.idle() && (all || (expiry && *expiry <= Clock::now()))) unload(entry, lock);
  }
}

ModelManager::ModelManager(int64_t memory, KeepAlive keep_alive) : state_(std::make_shared<State>(memory, keep_alive)) {
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

void ModelManager::stop() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->changed.notify_all();
  }
  if (state_->thread.joinable()) state_->thread.join();
}

ModelManager::~ModelManager() {
  stop();
  std::vector<std::shared_ptr<const ServedModel>> models;
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& entry : state_->entries) models.push_back(std::move(entry->model));
  }
}

Status ModelManager::add(std::unique_ptr<ModelSource> source) {
  const std::lock_guard lock(state_->mutex);
  const std::string name = source->name();
  for (const auto& entry : state_->entries) {
    if (entry->name == name)
      return Error{ErrorKind::usage, "duplicate_name", "two of the models have the same name", "model"};
  }
  auto entry = std::make_unique<Entry>();
  entry->name = name;
  entry->source = std::move(source);
  entry->keep_alive = state_->keep_alive;
  state_->entries.push_back(std::move(entry));
  return {};
}

void ModelManager::add(Model model) {
  const std::lock_guard lock(state_->mutex);
  auto entry = std::make_unique<Entry>();
  entry->name = model->name;
  entry->state = ModelState::loaded;
  entry->model = std::move(model);
  state_->entries.push_back(std::move(entry));
}

std::optional<Result<Model>> ModelManager::acquire(const std::string& name, std::optional<KeepAlive> keep_alive,
                                                   std::function<bool()> wanted, Ready ready) {
  if (Status named = check_model_name(name); !named) return Result<Model>(named.error());
  const std::lock_guard lock(state_->mutex);
  if (state_->closing) return Result<Model>(shutting_down());
  Entry* entry = state_->find(name);
  if (!entry) return Result<Model>(model_not_found());
  if (keep_alive) entry->keep_alive = *keep_alive;
  if (entry->state == ModelState::loaded) return Result<Model>(state_->lease(*entry));
  entry->waiting.push_back({std::move(wanted), std::move(ready)});
  state_->changed.notify_all();
  return std::nullopt;
}

Result<Model> ModelManager::acquire_now(const std::string& name) {
  std::promise<Result<Model>> promise;
  auto at_once = acquire(
      name, std::nullopt, [] { return true; }, [&](Result<Model> result) { promise.set_value(std::move(result)); });
  return at_once ? std::move(*at_once) : promise.get_future().get();
}

int64_t ModelManager::memory() const {
  return state_->memory;
}

std::vector<ModelInfo> ModelManager::list() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<ModelInfo> out;
  for (const auto& entry : state_->entries) out.push_back(State::describe(*entry));
  return out;
}

Result<ModelInfo> ModelManager::find(const std::string& name) const {
  MARTLET_TRY(check_model_name(name));
  const std::lock_guard lock(state_->mutex);
  const Entry* entry = state_->find(name);
  return entry ? Result<ModelInfo>(State::describe(*entry)) : Result<ModelInfo>(model_not_found());
}

std::vector<Model> ModelManager::loaded() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<Model> out;
  for (const auto& entry : state_->entries) {
    if (entry->model) out.push_back(entry->model);
  }
  return out;
}

EngineStats ModelManager::retired() const {
  const std::lock_guard lock(state_->mutex);
  return state_->retired;
}

std::optional<Error> ModelManager::failure() const {
  for (const Model& model : loaded()) {
    if (const std::optional<Error> failure = model->engine->stats().failure) return failure;
  }
  return std::nullopt;
}

void ModelManager::drop_caches() {
  for (const Model& model : loaded()) model->engine->drop_prompt_cache();
}

void ModelManager::unload_idle() {
  const std::lock_guard lock(state_->mutex);
  state_->unload_all_idle = true;
  state_->changed.notify_all();
}

void ModelManager::drain(double seconds) {
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  {
    const std::lock_guard lock(state_->mutex);
    state_->closing = true;
    state_->changed.notify_all();
  }
  for (const Model& model : loaded()) {
    const std::chrono::duration<double> left = deadline - Clock::now();
    model->engine->drain(std::max(left.count(), 0.0));
  }
}

}  // namespace martlet::server
