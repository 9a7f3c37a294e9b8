#pragma once

#include <chrono>

namespace martlet::cpu {

// Whether a thread that wants to run really does: its processor time beside the clock's, over windows of ten
// milliseconds. Belongs to the thread that made it.
class CoreWatch {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kWindow{10};

  CoreWatch() { restart(Clock::now()); }

  // The thread did not want to run for so long.
  void idle(Clock::duration time) { began_ += time; }
  // True once at the end of a window of which the thread lost more than a quarter to others.
  bool crowded() { return crowded(Clock::now()); }
  bool crowded(Clock::time_point now);

 private:
  void restart(Clock::time_point now);

  Clock::time_point began_;
  std::chrono::nanoseconds used_;  // processor time of this thread at the window's begin
};

}  // namespace martlet::cpu
