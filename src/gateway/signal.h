#pragma once

// What one coroutine waits for and others on its thread tell it. Costs nothing until somebody waits.

#include <optional>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "gateway/time.h"

namespace martlet::gateway {

class Signal {
 public:
  // Until the next notify(), or until then; whoever waits looks for itself what has happened.
  boost::asio::awaitable<void> wait(boost::asio::io_context& io, Time until = Time::max()) {
    if (!timer_) timer_.emplace(io);
    timer_->expires_at(until);
    co_await timer_->async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  }
  // Told to nobody where nobody waits.
  void notify() {
    if (timer_) timer_->cancel();
  }

 private:
  std::optional<boost::asio::steady_timer> timer_;
};

}  // namespace martlet::gateway
