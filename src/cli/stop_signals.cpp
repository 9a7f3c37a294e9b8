#include "cli/stop_signals.h"

#include <signal.h>
#include <unistd.h>

#include <thread>

namespace martlet::cli {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread(watch, state_).detach();  // sleeps in sigwait for as long as the process lives
}

void StopSignals::watch(std::shared_ptr<State> state) {
  const sigset_t set = stop_signals();
  for (int signal = 0; sigwait(&set, &signal) == 0;) {
    std::lock_guard lock(state->mutex);
    if (!state->drains || state->asked) _exit(128 + signal);
    state->asked = true;
    state->changed.notify_all();
  }
}

void StopSignals::may_drain() {
  std::lock_guard lock(state_->mutex);
  state_->drains = true;
}

bool StopSignals::wait_for(std::chrono::milliseconds time) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, time, [&] { return state_->asked; });
}

}  // namespace martlet::cli
