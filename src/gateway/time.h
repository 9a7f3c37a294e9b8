#pragma once

#include <chrono>

namespace martlet::gateway {

// Rules take the time as an argument: a test drives them with a clock of its own.
using Time = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

}  // namespace martlet::gateway
