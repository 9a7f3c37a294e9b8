#include "net/deadline.h"

#include <utility>

#include "base/out_of_memory.h"

namespace martlet::net {

void Deadline::set(Time at, std::weak_ptr<const void> owner) {
  at_ = at;
  if (!timer_) timer_.emplace(executor_);
  if (!ticking_ || timer_->expiry() > at_) tick(std::move(owner));
}

void Deadline::tick(std::weak_ptr<const void> owner) {
  ticking_ = false;  // what ran is cancelled
  timer_->expires_at(at_);
  timer_->async_wait([this, owner](boost::system::error_code ec) {
    const auto held = owner.lock();
    if (!ec && held) fired(owner);
  });
  ticking_ = true;
}

void Deadline::fired(std::weak_ptr<const void> owner) {
  ticking_ = false;
  if (at_ == Time::max()) return;
  // Called by itself, it has nobody above it who would notice that there is no deadline any more.
  if (at_ > std::chrono::steady_clock::now()) return insist([&] { tick(owner); });
  clear();
  passed_();
}

}  // namespace martlet::net
