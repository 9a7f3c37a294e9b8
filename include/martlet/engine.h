#pragma once

// The inference engine: one model, one thread of its own, many concurrent requests through a paged cache.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "martlet/cache_type.h"
#include "martlet/plan.h"
#include "martlet/request.h"

namespace martlet {

class Backend;
class ModelFile;

struct EngineOptions {
  int32_t context = 0;          // longest sequence in tokens; 0: the model's own, less what memory allows
  int32_t max_sequences = 32;   // requests that run at once; more wait in the queue
  int32_t max_queue = 1024;     // requests that may wait beside those; beyond it submit fails with `queue_full`
  int64_t memory_ceiling = 0;   // bytes, within what cgroup and machine allow; 0: just that
  int32_t streams = 0;          // sequences of full context that must fit at once; 0: chosen
  int64_t prompt_cache = 0;     // bytes of cache for earlier prompts, beside what running sequences may take
  int64_t server_bytes = 0;     // buffers of a server's connections, for the plan
  int32_t prefill_chunk = 512;  // rows of one step at most
  std::string cache_dir;        // folder that keeps the prompt cache between runs; empty: nothing is kept
  std::function<void(const std::string&)> note;  // takes what operators should know, fixed words; from any thread
  int32_t max_tenant_requests = 0;  // requests of one tenant that may run or wait; 0: as many as fit in the queue
  double tpot_target = 0;  // seconds between tokens that prompts of others may cause; 0: 1.5 times a step without
  // Who drafts: a smaller model of the same vocabulary, or repetitions of the text. At most one of them.
  std::shared_ptr<const ModelFile> draft_model;
  bool ngram = false;
  int32_t ngram_history = 0;  // tokens of earlier answers that n-grams are looked for in, of the same tenant; 0: none
  Speculation speculation;    // of requests that ask for none of their own
  CacheType cache_type = CacheType::f16;
  bool prefix_cache = true;  // false: every prompt is computed anew, for measuring
};

// Counts of values by upper bounds, each twice the one before; the last bucket has none.
struct Histogram {
  double first_bound;
  std::array<uint64_t, 16> counts{};
  double sum = 0;

  void add(double value) {
    size_t bucket = 0;
    for (double bound = first_bound; value > bound && bucket + 1 < counts.size(); bound *= 2) ++bucket;
    ++counts[bucket];
    sum += value;
  }
  Histogram& operator+=(const Histogram& other) {
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
    sum += other.sum;
    return *this;
  }
};

struct EngineStats {
  int32_t running = 0, queued = 0;
  int64_t pages_total = 0, pages_used = 0, pages_cached = 0;
  uint64_t requests_finished = 0, prompt_tokens = 0, cached_tokens = 0, output_tokens = 0, steps = 0;
  uint64_t shape_compilations = 0;
  uint64_t preemptions = 0, pages_evicted = 0;
  std::array<uint64_t, kPrefixMisses> prefix_lookups{};  // admitted requests by PrefixMiss
  Histogram step_seconds{0.00025}, step_rows{1}, step_sequences{1};
  SpeculationStats speculation;
  std::optional<Error> failure;  // the model file changed, or the device is lost: no request is taken any more

  // Of several engines together.
  EngineStats& operator+=(const EngineStats& other) {
    running += other.running, queued += other.queued;
    pages_total += other.pages_total, pages_used += other.pages_used, pages_cached += other.pages_cached;
    if (!failure) failure = other.failure;
    return add_counters(other);
  }
  // What only ever grows.
  EngineStats& add_counters(const EngineStats& other) {
    requests_finished += other.requests_finished, steps += other.steps;
    prompt_tokens += other.prompt_tokens, cached_tokens += other.cached_tokens, output_tokens += other.output_tokens;
    shape_compilations += other.shape_compilations;
    preemptions += other.preemptions, pages_evicted += other.pages_evicted;
    for (size_t i = 0; i < prefix_lookups.size(); ++i) prefix_lookups[i] += other.prefix_lookups[i];
    step_seconds += other.step_seconds, step_rows += other.step_rows, step_sequences += other.step_sequences;
    speculation += other.speculation;
    return *this;
  }
};

class Engine {
 public:
  // Plans memory, opens the model on `backend` and starts the engine's thread. The engine owns both.
  // Errors: ErrorKind::model (bad hyperparameters, missing tensors, unsupported formats or architecture), ::memory.
  static Result<std::unique_ptr<Engine>> create(std::shared_ptr<const ModelFile> file, std::unique_ptr<Backend> backend,
                                                const EngineOptions& options);
  virtual ~Engine() = default;

  // Thread-safe, returns at once. Errors: ErrorKind::request (`empty_prompt`, `invalid_token_id`,
  // `context_length_exceeded` with both counts, bad parameters by name), ::unavailable (`queue_full`, `tenant_limit`,
  // `shutting_down`, `model_file_changed`). On success on_finish will be called exactly once.
  virtual Result<RequestId> submit(Request request, std::shared_ptr<RequestSink> sink) = 0;
  // Thread-safe; the request's pages are free within one step. Unknown ids are ignored.
  virtual void cancel(RequestId id) = 0;
  // Stops taking requests and lets the running ones finish; returns when idle or after `seconds`, cancelling the rest.
  virtual void drain(double seconds) = 0;

  // Gives the pages of earlier prompts that nobody runs on back to the system, soon. Thread-safe.
  virtual void drop_prompt_cache() = 0;

  virtual EngineStats stats() const = 0;  // thread-safe
  virtual const Plan& plan() const = 0;
  virtual int32_t context() const = 0;  // tokens a sequence may hold
  virtual int32_t vocabulary() const = 0;
};

}  // namespace martlet
