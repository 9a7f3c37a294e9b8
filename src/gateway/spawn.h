#pragma once

// Coroutines that nobody waits for. One that finds no memory ends with an exception, or is destroyed by Asio without a
// word: asio::detached would swallow both, and whoever waits for what it did would wait for ever.
// `lost(error)` is told of such an end, once, on the I/O thread: out_of_memory, or internal_error for any other
// exception. It must not throw.

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/out_of_memory.h"

namespace martlet::gateway {

inline Error reason_of(const std::exception_ptr& exception) {
  try {
    if (exception) std::rethrow_exception(exception);
  } catch (const std::bad_alloc&) {
  } catch (...) {
    return insist([] {
      return Error{ErrorKind::internal, "internal_error", "a coroutine ended with an exception", ""};
    });
  }
  return insist(out_of_memory);
}

// What co_spawn tells of the end. Unless it was a good one, `lost` hears it.
template <class Lost>
class OrElse {
 public:
  OrElse(boost::asio::io_context& io, Lost lost) : io_(io), lost_(std::move(lost)) {}
  OrElse(OrElse&& other) noexcept
      : io_(other.io_),
        lost_(std::move(other.lost_)),
        exception_(std::move(other.exception_)),
        armed_(std::exchange(other.armed_, false)) {}
  OrElse& operator=(OrElse&&) = delete;
  ~OrElse() {
    if (armed_ && !io_.stopped()) lost_(reason_of(exception_));
  }
  void operator()(std::exception_ptr exception) {
    armed_ = exception != nullptr;
    exception_ = std::move(exception);
  }

 private:
  boost::asio::io_context& io_;
  Lost lost_;
  std::exception_ptr exception_;
  bool armed_ = true;
};

// Runs the coroutine that `body` returns, at once up to where it waits. Does not throw.
template <class Body, class Lost>
void spawn(boost::asio::io_context& io, Body body, Lost lost) {
  OrElse<Lost> or_else(io, std::move(lost));
  if_memory_allows([&] { boost::asio::co_spawn(io, std::move(body), std::move(or_else)); });
}

namespace detail {

inline constexpr std::chrono::milliseconds kFirstPause{100}, kLongestPause{5000};

template <class Body, class Lost>
struct Again {
  Body body;
  Lost lost;
};

template <class Body, class Lost>
void go_on(boost::asio::io_context& io, std::shared_ptr<const Again<Body, Lost>> what,
           std::chrono::milliseconds pause) {
  const auto begun = std::chrono::steady_clock::now();
  const auto again = [&io, what, longer = pause, begun](const Error& error) {
    what->lost(error);
    const bool went_well = std::chrono::steady_clock::now() - begun > kLongestPause;
    const std::chrono::milliseconds pause = went_well ? kFirstPause : longer;
    insist([&] {
      auto timer = std::make_shared<boost::asio::steady_timer>(io, pause);
      timer->async_wait([&io, what, pause, timer](boost::system::error_code ec) {
        if (!ec) go_on(io, what, std::min(2 * pause, kLongestPause));
      });
    });
  };
  spawn(
      io, [what] { return what->body(); }, again);
}

}  // namespace detail

// Runs what must not end before it returns: when it is lost it is begun again, after a pause that doubles each time,
// and is short again after it went well for longer than that.
// Does not throw.
template <class Body, class Lost>
void spawn_until_done(boost::asio::io_context& io, const Body& body, const Lost& lost) {
  using What = detail::Again<Body, Lost>;
  std::shared_ptr<const What> what = insist([&] { return std::make_shared<const What>(What{body, lost}); });
  detail::go_on<Body, Lost>(io, std::move(what), detail::kFirstPause);
}

}  // namespace martlet::gateway
