#pragma once

// Which instance serves which request: preference, load, prefix affinity, and one queue a model from which whatever
// instance is free next takes the oldest request. No I/O and no clock of its own. Not thread-safe.

#include <cstdint>
#include <functional>
#include <list>
#include <vector>

#include "base/error.h"
#include "gateway/breaker.h"
#include "gateway/pressure.h"

namespace martlet::gateway {

// What selection has to know of an upstream.
struct UpstreamTraits {
  size_t model = 0;       // index of the model that it serves
  bool favoured = false;  // the kind that this platform runs best
  bool standby = false;   // only when those that are none cannot
  bool bounded = true;    // its memory on this machine cannot grow; false: avoided when memory is short
  bool drafts = false;    // speculates, and no request field stops it
  int64_t context = 0;    // longest prompt and answer in tokens; 0: unknown
  bool compiles = false;  // a shape that it has not seen costs its compilation: those that are warm are preferred
  int limit = 32;         // requests that one instance runs at once
  int instances = 1;
  BreakerOptions breaker;
};

struct Wish {
  size_t model = 0;
  int64_t tokens = 0;   // of the prompt, and of the answer where it says; estimated
  uint64_t prefix = 0;  // of the prompt's beginning: equal ones share a cache
  bool without_drafts = false;
  std::vector<size_t> tried;  // instances that failed this request
};

struct DispatcherOptions {
  size_t queue = 1024;                             // requests of one model that may wait
  Duration queue_time = std::chrono::seconds(60);  // and for how long
};

class Dispatcher {
 public:
  struct Instance {
    size_t upstream = 0;
    int running = 0;
    bool draining = false;     // the administrator wants no new request there
    bool retiring = false;     // its process is about to be stopped
    bool preparing = true;     // not warm yet
    int64_t warm_buckets = 0;  // the sum of those that are compiled: each is another power of two
    Breaker breaker;

    bool takes_requests() const { return !draining && !retiring && !preparing && breaker.is_up(); }
  };
  // Receives the index of an instance, which counts as running there until release(); or ErrorKind::unavailable
  // `no_upstream` (none can serve it now), `queue_full`, `queue_timeout`. May be called inside request().
  using Grant = std::function<void(Result<size_t>)>;
  using Ticket = uint64_t;

  explicit Dispatcher(std::vector<UpstreamTraits> upstreams, DispatcherOptions options = {});

  // All instances begin as starting and preparing: they get requests when both are over.
  Ticket request(Wish wish, Time now, Grant grant);
  // Its grant will not be called any more. Unknown tickets are ignored.
  void withdraw(Ticket ticket);
  // The request that ran there is over.
  void release(size_t instance);
  // Breakers, drains, pressure or apartness changed, or time passed: serves or refuses whoever waits.
  void settle(Time now);

  void set_pressure(Pressure level) { pressure_ = level; }
  // This upstream answers differently from those that serve the model: it gets nothing.
  void set_apart(size_t upstream, bool apart) { apart_[upstream] = apart; }
  bool apart(size_t upstream) const { return apart_[upstream]; }

  std::vector<Instance>& instances() { return instances_; }
  const std::vector<Instance>& instances() const { return instances_; }
  const UpstreamTraits& traits(size_t upstream) const { return upstreams_[upstream]; }
  size_t waiting() const { return queue_.size(); }
  bool usable(const Instance& instance, const Wish& wish) const;

 private:
  struct Waiter {
    Ticket ticket;
    Wish wish;
    Time since;
    Grant grant;
  };
  enum class Found { one, busy, nothing };
  Found find(const Wish& wish, size_t& best) const;
  // Smaller is better, compared in order.
  struct Rank {
    int preference, load;
    uint64_t distance;
    auto operator<=>(const Rank&) const = default;
  };
  Rank rank(size_t index, const Wish& wish) const;
  void start(size_t instance);

  const std::vector<UpstreamTraits> upstreams_;
  const DispatcherOptions options_;
  std::vector<Instance> instances_;
  std::vector<bool> apart_;
  std::list<Waiter> queue_;  // the oldest first
  Pressure pressure_ = Pressure::normal;
  Ticket last_ticket_ = 0;
  bool settling_ = false;
};

}  // namespace martlet::gateway
