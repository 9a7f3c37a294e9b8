#pragma once

#include <functional>

#include "gateway/core.h"

namespace martlet::gateway {

inline constexpr std::chrono::milliseconds kProbeInterval{1000};

// Asks every instance once a second whether it is there, and tells its breaker, until the context ends. `came_up` runs
// when an instance that could not take requests now can. I/O thread.
void start_probes(Core& core, std::function<void(size_t instance)> came_up);

}  // namespace martlet::gateway
