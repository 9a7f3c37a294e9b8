#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

namespace martlet::cli {

// SIGINT and SIGTERM for a program that finishes its work first. Before may_drain() a signal ends the process at once;
// after it the first one is reported by wait_for(), and a second one ends the process (exit 130 or 143).
class StopSignals {
 public:
  // Call before any other thread starts: threads inherit that these signals are not theirs.
  StopSignals();
  void may_drain();
  // Sleeps up to `time`; true once a signal came.
  bool wait_for(std::chrono::milliseconds time);

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool drains = false, asked = false;
  };
  static void watch(std::shared_ptr<State> state);
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace martlet::cli
