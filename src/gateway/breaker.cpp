#include "gateway/breaker.h"

#include <algorithm>

namespace martlet::gateway {

void Breaker::began() {
  if (state_ == State::half_open) trial_ = true;
}

void Breaker::succeeded() {
  failures_ = 0;
  if (state_ != State::half_open) return;
  state_ = State::closed;
  trial_ = false;
  open_time_ = options_.open_at_least;
}

void Breaker::failed(bool dead, Time now) {
  if (state_ == State::half_open) {
    open_time_ = std::min(2 * open_time_, options_.open_at_most);
    return open(now);
  }
  // What began before the breaker opened says nothing new.
  if (state_ == State::closed && (++failures_ >= options_.failures_to_open || dead)) open(now);
}

void Breaker::abandoned() {
  trial_ = false;
}

void Breaker::probed(Probe result, bool busy, Time now) {
  silent_ = result == Probe::silent && !busy ? silent_ + 1 : 0;
  const bool up = result == Probe::ok;
  const bool down = result == Probe::refused || silent_ >= 2;
  if (state_ == State::starting && up) state_ = State::closed;
  if (state_ == State::open && up && now - opened_ >= open_time_) state_ = State::half_open;
  if ((state_ == State::closed || state_ == State::half_open) && down) open(now);
}

void Breaker::reset() {
  *this = Breaker(options_);
}

void Breaker::open(Time now) {
  state_ = State::open;
  opened_ = now;
  failures_ = silent_ = 0;
  trial_ = false;
}

}  // namespace martlet::gateway
