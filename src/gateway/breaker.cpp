#include "gateway/breaker.h"

#include <algorithm>

namespace martlet::gateway {

Breaker::Era Breaker::began() {
  if (state_ == State::half_open) trial_ = true;
  return era_;
}

void Breaker::succeeded(Era began) {
  if (began != era_) return;
  failures_ = 0;
  if (state_ != State::half_open) return;
  state_ = State::closed;
  trial_ = false;
  open_time_ = options_.open_at_least;
}

void Breaker::failed(Era began, bool dead, Time now) {
  if (began != era_) return;
  if (state_ == State::half_open) {
    open_time_ = std::min(2 * open_time_, options_.open_at_most);
    return open(now);
  }
  if (state_ == State::closed && (++failures_ >= options_.failures_to_open || dead)) open(now);
}

void Breaker::abandoned(Era began) {
  if (began == era_) trial_ = false;
}

void Breaker::probed(Probe result, bool busy, Time now) {
  silent_ = result == Probe::silent && !busy ? silent_ + 1 : 0;
  const bool up = result == Probe::ok;
  const bool down = result == Probe::refused || silent_ >= 2;
  if (state_ == State::starting && up) state_ = State::closed;
  if (state_ == State::open && up && now - opened_ >= open_time_) state_ = State::half_open;
  if (is_up() && down) open(now);
}

void Breaker::reset() {
  const Era next = era_ + 1;
  *this = Breaker(options_);
  era_ = next;
}

void Breaker::open(Time now) {
  ++era_;
  state_ = State::open;
  opened_ = now;
  failures_ = silent_ = 0;
  trial_ = false;
}

}  // namespace martlet::gateway
