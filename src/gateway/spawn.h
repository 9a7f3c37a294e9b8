#pragma once

// Coroutines that nobody waits for. One that finds no memory ends with an exception, or is destroyed by Asio without a
// word: asio::detached would swallow both, and whoever waits for what it did would wait for ever.

#include <chrono>
#include <exception>
#include <memory>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/out_of_memory.h"

namespace martlet::gateway {

// What co_spawn tells of the end. Unless it was a good one, `lost` is called, once.
template <class Lost>
class OrElse {
 public:
  OrElse(boost::asio::io_context& io, Lost lost) : io_(io), lost_(std::move(lost)) {}
  OrElse(OrElse&& other) noexcept
      : io_(other.io_), lost_(std::move(other.lost_)), armed_(std::exchange(other.armed_, false)) {}
  OrElse& operator=(OrElse&&) = delete;
  ~OrElse() {
    if (armed_ && !io_.stopped()) lost_();
  }
  void operator()(std::exception_ptr error) { armed_ = error != nullptr; }

 private:
  boost::asio::io_context& io_;
  Lost lost_;
  bool armed_ = true;
};

// Runs the coroutine that `body` returns, at once up to where it waits. When it does not come to its end, `lost` is
// called on the I/O thread, once; it must not throw. Does not throw itself.
template <class Body, class Lost>
void spawn(boost::asio::io_context& io, Body body, Lost lost) {
  OrElse<Lost> or_else(io, std::move(lost));
  if_memory_allows([&] { boost::asio::co_spawn(io, std::move(body), std::move(or_else)); });
}

namespace detail {

inline constexpr std::chrono::milliseconds kPause{100};

template <class Body>
void go_on(boost::asio::io_context& io, std::shared_ptr<const Body> body) {
  const auto again = [&io, body] {
    insist([&] {
      auto timer = std::make_shared<boost::asio::steady_timer>(io, kPause);
      timer->async_wait([&io, body, timer](boost::system::error_code ec) {
        if (!ec) go_on(io, body);
      });
    });
  };
  spawn(
      io, [body] { return (*body)(); }, again);
}

}  // namespace detail

// Runs what must not end before it returns: where it finds no memory it is begun again, a moment later. Does not throw.
template <class Body>
void spawn_until_done(boost::asio::io_context& io, const Body& body) {
  detail::go_on<Body>(io, insist([&] { return std::make_shared<const Body>(body); }));
}

}  // namespace martlet::gateway
