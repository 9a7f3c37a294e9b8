#include <algorithm>

#include "plan/planner.h"

namespace martlet {

Result<std::vector<PlanRow>> plan_table(const ModelNeeds& model, const Backend& backend, PlanOptions options,
                                        std::span<const int64_t> memories) {
  if (options.context == 0) options.context = std::min(model.h.context, options.longest_context);
  options.streams = 1;
  PlanOptions longest = options;
  longest.context = 0;
  longest.longest_context = model.h.context;
  std::vector<PlanRow> rows;
  for (const int64_t memory : memories) {
    PlanRow& row = rows.emplace_back(PlanRow{memory});
    const Ceiling ceiling = size_ceiling(memory, backend);
    const Result<Plan> alone = make_plan(model, backend, ceiling, longest);
    if (!alone && alone.error().code != "does_not_fit") return alone.error();
    if (!alone) continue;
    row.context = alone->context;
    const Result<Plan> one = make_plan(model, backend, ceiling, options);
    if (!one && one.error().code != "does_not_fit") return one.error();
    if (!one) continue;
    const int64_t page = backend.page_tokens();
    const int64_t stream = (one->context + page - 1) / page * page * one->cache_bytes_per_token;
    row.streams = 1 + (ceiling.bytes - one->total() + one->copies) / stream;
  }
  return rows;
}

}  // namespace martlet
