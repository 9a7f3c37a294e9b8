#pragma once

#include <cstdint>

#include "base/function_ref.h"

namespace martlet {

// What `threads` threads do together in a second: the best of ten passes, in each of which every thread calls `work`
// once and all of them start together. `work(thread)` returns how much it did; its calls of a first pass are not timed.
double best_rate(int32_t threads, FunctionRef<double(int32_t thread)> work);

}  // namespace martlet
