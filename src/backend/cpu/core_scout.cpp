#include "backend/cpu/core_scout.h"

#ifdef __linux__
#include <sched.h>
#endif

#include <optional>

#include "backend/cpu/core_watch.h"
#include "backend/cpu/pause.h"

namespace martlet::cpu {
namespace {

// Of the calling thread; false where there is no such thing.
bool take_lowest_rank() {
#ifdef __linux__
  const sched_param none = {};
  return sched_setscheduler(0, SCHED_IDLE, &none) == 0;
#else
  return false;
#endif
}

// Ends early when the scout is dismissed.
bool is_room(const std::atomic<CoreScout::State>& state) {
  CoreWatch watch;
  const auto end = CoreWatch::Clock::now() + CoreWatch::kWindow;
  auto now = end;
  do {
    for (int i = 0; i < 32; ++i) pause_core();
    now = CoreWatch::Clock::now();
  } while (now < end && state.load(std::memory_order_relaxed) != CoreScout::State::dismissed);
  return !watch.crowded(now);
}

}  // namespace

CoreScout::CoreScout() : thread_([this] { serve(); }) {}

CoreScout::~CoreScout() {
  state_.store(State::dismissed);
  state_.notify_one();
  thread_.join();
}

void CoreScout::look() {
  if (state_.load(std::memory_order_relaxed) != State::at_home) return;
  state_.store(State::looking);
  state_.notify_one();
}

CoreScout::State CoreScout::report() {
  const State state = state_.load();
  if (state != State::looking) state_.store(State::at_home);
  return state;
}

void CoreScout::serve() {
  std::optional<bool> lowest;
  for (State state = state_.load(); state != State::dismissed; state = state_.load()) {
    if (state != State::looking) {
      state_.wait(state);
      continue;
    }
    // A thread may not leave the lowest rank again, and wait long for its turn to end: it is taken at the first look.
    if (!lowest) lowest = take_lowest_rank();
    const State found = !*lowest || is_room(state_) ? State::found_room : State::found_none;
    state_.compare_exchange_strong(state, found);  // unless dismissed meanwhile
  }
}

}  // namespace martlet::cpu
