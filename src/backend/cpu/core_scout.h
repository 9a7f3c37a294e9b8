#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace martlet::cpu {

// Looks for a core that nobody uses without taking one from anybody: a thread of the lowest rank, which the system runs
// only where nothing else wants to, tries to be at work for ten milliseconds. Where the system has no such rank (or
// forbids it) nothing is looked for, and every look says that there is room. One thread at a time may call it.
class CoreScout {
 public:
  enum class State : uint32_t { at_home, looking, found_room, found_none, dismissed };

  CoreScout();  // throws std::system_error when the system has no threads left
  ~CoreScout();
  CoreScout(const CoreScout&) = delete;
  CoreScout& operator=(const CoreScout&) = delete;

  void look();     // begins a look, when at home
  State report();  // what the last look has come to; one that has ended is told once, then the scout is at home again

 private:
  void serve();

  std::atomic<State> state_{State::at_home};
  std::thread thread_;
};

}  // namespace martlet::cpu
