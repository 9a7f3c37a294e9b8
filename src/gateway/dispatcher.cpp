#include "gateway/dispatcher.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/out_of_memory.h"
#include "gateway/buckets.h"

namespace martlet::gateway {
namespace {

Error unavailable(const char* code, const char* text) {
  return {ErrorKind::unavailable, code, text, ""};
}

Error none_can() {
  return unavailable("no_upstream", "no upstream can serve this model now; try again soon");
}

Error waited_too_long() {
  return unavailable("queue_timeout", "the request waited too long for a free upstream; try again soon");
}

// Rendezvous hashing (Thaler and Ravishankar, 1998): each prefix has an order of instances of its own, which stays
// when others come and go. The mixer is splitmix64's.
uint64_t distance(uint64_t prefix, size_t instance) {
  uint64_t x = prefix ^ (0x9e3779b97f4a7c15u * (instance + 1));
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

Dispatcher::Dispatcher(std::vector<UpstreamTraits> upstreams, DispatcherOptions options)
    : upstreams_(std::move(upstreams)), options_(options), apart_(upstreams_.size(), false) {
  for (size_t u = 0; u < upstreams_.size(); ++u) {
    for (int i = 0; i < upstreams_[u].instances; ++i)
      instances_.push_back({.upstream = u, .breaker = Breaker(upstreams_[u].breaker)});
  }
}

bool Dispatcher::usable(const Instance& instance, const Wish& wish) const {
  const UpstreamTraits& traits = upstreams_[instance.upstream];
  const bool safe = traits.bounded || pressure_ != Pressure::critical;
  const bool tried =
      std::any_of(wish.tried.begin(), wish.tried.end(), [&](size_t index) { return &instances_[index] == &instance; });
  return traits.model == wish.model && instance.takes_requests() && safe && !apart_[instance.upstream] && !tried;
}

Dispatcher::Rank Dispatcher::rank(size_t index, const Wish& wish) const {
  const Instance& instance = instances_[index];
  const UpstreamTraits& traits = upstreams_[instance.upstream];
  const bool pressed = !traits.bounded && pressure_ != Pressure::normal;
  const bool too_long = traits.context > 0 && wish.tokens > traits.context;
  const bool cold = traits.compiles && (instance.warm_buckets & bucket_of(wish.tokens)) == 0;
  const bool drafts_unasked = traits.drafts && wish.without_drafts;
  // The binary digits of one number, the weightiest reason first.
  int preference = 0;
  for (const bool against : {pressed, too_long, cold, drafts_unasked, traits.standby, !traits.favoured}) {
    preference = 2 * preference + against;
  }
  return {preference, instance.running, distance(wish.prefix, index)};
}

Dispatcher::Found Dispatcher::find(const Wish& wish, size_t& best) const {
  Found found = Found::nothing;
  std::optional<Rank> least;
  for (size_t i = 0; i < instances_.size(); ++i) {
    if (!usable(instances_[i], wish)) continue;
    if (found == Found::nothing) found = Found::busy;
    if (!instances_[i].breaker.admits() || instances_[i].running >= upstreams_[instances_[i].upstream].limit) continue;
    const Rank candidate = rank(i, wish);
    if (least && !(candidate < *least)) continue;
    least = candidate;
    best = i;
    found = Found::one;
  }
  return found;
}

void Dispatcher::start(size_t instance) {
  ++instances_[instance].running;
  instances_[instance].breaker.began();
}

Dispatcher::Ticket Dispatcher::request(Wish wish, Time now, Grant grant) {
  const Ticket ticket = ++last_ticket_;
  size_t instance = 0;
  const Found found = find(wish, instance);
  const auto same_model = [&](const Waiter& waiter) { return waiter.wish.model == wish.model; };
  if (found == Found::one) {
    start(instance);
    grant(instance);
  } else if (found == Found::nothing) {
    grant(none_can());
  } else if (static_cast<size_t>(std::count_if(queue_.begin(), queue_.end(), same_model)) >= options_.queue) {
    grant(unavailable("queue_full", "too many requests are waiting; try again soon"));
  } else {
    queue_.push_back({ticket, std::move(wish), now, std::move(grant)});
  }
  return ticket;
}

void Dispatcher::withdraw(Ticket ticket) {
  queue_.remove_if([&](const Waiter& waiter) { return waiter.ticket == ticket; });
}

void Dispatcher::release(size_t instance) {
  --instances_[instance].running;
}

void Dispatcher::settle(Time now) {
  // A grant may release, withdraw or ask anew: each round starts from the front, and a round inside a round is left to
  // it.
  if (std::exchange(settling_, true)) return;
  for (auto it = queue_.begin(); it != queue_.end();) {
    size_t instance = 0;
    const Found found = find(it->wish, instance);
    const bool late = now - it->since >= options_.queue_time;
    if (found == Found::busy && !late) {
      ++it;
      continue;
    }
    const Grant grant = std::move(it->grant);
    queue_.erase(it);
    if (found == Found::one) {
      start(instance);
      grant(instance);
    } else {
      grant(insist([&] { return found == Found::nothing ? none_can() : waited_too_long(); }));
    }
    it = queue_.begin();
  }
  settling_ = false;
}

}  // namespace martlet::gateway
