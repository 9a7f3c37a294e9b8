#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "base/error.h"
#include "martlet/plan.h"
#include "model/model.h"
#include "plan/ceiling.h"

namespace martlet {

// A second model, which drafts for the first with a cache as long.
struct DraftNeeds {
  Hyperparameters h;
  int64_t weight_bytes = 0;
};

struct PlanOptions {
  int32_t context = 0;  // 0: chosen, see make_plan
  int32_t max_sequences = 32;
  int32_t prefill_chunk = 512;
  const DraftNeeds* draft = nullptr;
  CacheType cache_type = CacheType::f16;
};

// Adds up what running the model takes and sizes its cache, before anything of it is loaded.
//
// Without a context, sequences get the model's own, at most kDefaultContext tokens, and the pool that all sequences
// share holds kDefaultFullSequences of them; where that does not fit, first the pool and then the context are cut. A
// context that was asked for is never cut: its pool is cut down to one sequence, and if that does not fit, the plan is
// refused. Errors: ErrorKind::memory, `does_not_fit` with need, have and the flags to change, `plan_overflow`;
// ErrorKind::usage, `invalid_value` for a context longer than the model's.
Result<Plan> make_plan(const Hyperparameters& h, int64_t weight_bytes, int64_t bytes_per_token_read,
                       const Backend& backend, const Ceiling& ceiling, const PlanOptions& options);

inline constexpr int32_t kDefaultContext = 8192;
inline constexpr int32_t kDefaultFullSequences = 4;

// What a backend may use: of its device's free memory, where it has one; else of this machine's.
Ceiling memory_ceiling(int64_t flag, const Backend& backend);

// Rows that one step takes at most: a prefill chunk and a decode row of each sequence, within what the backend takes.
int32_t step_rows(const Backend& backend, const PlanOptions& options);
// Pages that hold the plan's tokens.
int32_t pool_pages(const Plan& plan, const Backend& backend);

// Fills in the bandwidth and with it tokens a second when every weight is read once a token.
void add_roofline(Plan& plan, double bandwidth_gb_s);

}  // namespace martlet
