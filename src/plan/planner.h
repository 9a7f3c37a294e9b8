#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "martlet/plan.h"
#include "model/model.h"
#include "plan/ceiling.h"

namespace martlet {

// What of a model the plan counts.
struct ModelNeeds {
  Hyperparameters h;
  int64_t weight_bytes = 0;          // of its files, mapped, or of what the backend keeps of them
  int64_t bytes_per_token_read = 0;  // see martlet::bytes_read_per_token
  int64_t text_bytes = 0;            // tokenizer and the file's index of names
  int64_t copy_bytes = 0;            // see martlet::copy_bytes
};

// On that backend. Errors: those of read_hyperparameters.
Result<ModelNeeds> model_needs(const ModelFile& file, const Backend& backend);

inline constexpr int32_t kDefaultContext = 8192;
inline constexpr int32_t kDefaultFullSequences = 4;

struct PlanOptions {
  int32_t context = 0;  // 0: chosen, see make_plan
  int32_t max_sequences = 32;
  int32_t prefill_chunk = 512;
  int32_t streams = 0;                // sequences of full context that must fit at once; 0: see make_plan
  int64_t prompt_cache = 0;           // bytes of cache for earlier prompts, beside what running sequences may take
  int64_t server_bytes = 0;           // buffers of a server's connections
  const ModelNeeds* draft = nullptr;  // a second model that drafts for the first, with a cache as long
  int32_t longest_context = kDefaultContext;  // what is chosen at most
  CacheType cache_type = CacheType::f16;
};

// Adds up what running the model takes and sizes its cache, before anything of it is loaded.
//
// Without a context, sequences get the model's own, at most `longest_context` tokens, and the pool that all sequences
// share holds kDefaultFullSequences of them (at most max_sequences); where that does not fit, first the pool and then
// the context are cut. A context that was asked for is never cut, nor are streams that were: without them the pool is
// cut down to one sequence. What cannot be cut and does not fit is refused. Errors: ErrorKind::memory, `does_not_fit`
// with need, have and the flags to change (of those that cost no context the ones that alone would do),
// `plan_overflow`; ErrorKind::usage, `invalid_value` for a context longer than the model's.
Result<Plan> make_plan(const ModelNeeds& model, const Backend& backend, const Ceiling& ceiling,
                       const PlanOptions& options);

// What a backend may use: of its device's free memory, where it has one; else of this machine's.
Ceiling memory_ceiling(int64_t flag, const Backend& backend);

// The same of a machine, or of a device, of that size which nobody else uses.
Ceiling size_ceiling(int64_t bytes, const Backend& backend);

// What steps are at most: rows of a prefill chunk and a decode row of each sequence, within what the backend takes.
StepLimits step_limits(const Backend& backend, const PlanOptions& options, int32_t context);
// Pages that hold the plan's tokens.
int32_t pool_pages(const Plan& plan, const Backend& backend);

// Fills in the bandwidth and with it tokens a second when every weight is read once a token.
void add_roofline(Plan& plan, double bandwidth_gb_s);

// What would fit in a machine of a given size.
struct PlanRow {
  int64_t memory = 0;   // of the machine, bytes
  int32_t context = 0;  // the longest for one sequence; 0: the model does not fit
  int64_t streams = 0;  // sequences of options.context (or the one that is chosen by default) at once
};
Result<std::vector<PlanRow>> plan_table(const ModelNeeds& model, const Backend& backend, PlanOptions options,
                                        std::span<const int64_t> memories);

}  // namespace martlet
