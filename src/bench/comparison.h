#pragma once

// Two results held against one another.

#include <string>

#include "base/error.h"
#include "bench/result.h"

namespace martlet::bench {

// Results of different contract versions are never mixed: ErrorKind::usage `contract_mismatch`.
Status same_contract(const RunFile& a, const RunFile& b);

// What changed from `before` to `after`, a line for each load that both have: the ratio of each figure and whether its
// 95 % interval leaves 1. What else is not the same in both - model, context, threads, machine, engines, noise - is
// named first: then the change may be due to that. Errors: ErrorKind::usage `contract_mismatch`; `work_mismatch` where
// one is a quick run or has answers of another length, so that their figures are of different work;
// `nothing_in_common`.
Result<std::string> text_comparison(const RunFile& before, const RunFile& after);

}  // namespace martlet::bench
