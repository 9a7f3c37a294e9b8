#pragma once

// Whether one instance of an upstream may get requests: its circuit breaker. Requests and probes report what became of
// them; a probe alone ends a failure, so no client pays for finding out whether an upstream is back.

#include <cstdint>

#include "gateway/time.h"

namespace martlet::gateway {

struct BreakerOptions {
  int failures_to_open = 3;                          // in a row
  Duration open_at_least = std::chrono::seconds(1);  // doubled with each trial that fails
  Duration open_at_most = std::chrono::seconds(4);
};

enum class Probe { ok, refused, silent };  // silent: connected, and no answer in time

class Breaker {
 public:
  enum class State { starting, closed, open, half_open };  // starting: not yet seen up

  explicit Breaker(BreakerOptions options = {}) : options_(options), open_time_(options.open_at_least) {}

  State state() const { return state_; }
  // It was seen up and has not failed since: requests may be for it.
  static constexpr bool is_up(State state) { return state == State::closed || state == State::half_open; }
  bool is_up() const { return is_up(state_); }
  // True when a request may be sent now. In half_open that is one at a time.
  bool admits() const { return state_ == State::closed || (state_ == State::half_open && !trial_); }

  // A number that changes whenever what is known of the instance becomes void: it opened, or was started anew.
  using Era = uint64_t;
  Era era() const { return era_; }

  // Each request that was sent calls began() and then one of the three, with the era in which it began: what belongs to
  // an earlier one says nothing of the instance as it is now.
  Era began();
  void succeeded(Era began);                    // its first byte came
  void failed(Era began, bool dead, Time now);  // dead: nobody listens there; no need to try three times
  void abandoned(Era began);                    // by its client, or refused for lack of room: says nothing

  // `busy`: requests are running there. A server that serves them one by one keeps a probe waiting: that is no failure.
  void probed(Probe result, bool busy, Time now);
  // The instance was started anew or moved: what was known of it is void.
  void reset();

 private:
  void open(Time now);

  BreakerOptions options_;
  Era era_ = 0;
  State state_ = State::starting;
  bool trial_ = false;
  int failures_ = 0, silent_ = 0;
  Duration open_time_;
  Time opened_{};
};

}  // namespace martlet::gateway
