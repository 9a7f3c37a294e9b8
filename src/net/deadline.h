#pragma once

// A deadline that moves with every read, mostly further away. The timer learns of that when it fires: to set it anew
// each time would cost more than the read.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

namespace martlet::net {

class Deadline {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // A member of `owner`'s object. `passed` runs on the executor's thread when the deadline has passed, once for each
  // that was set.
  Deadline(boost::asio::any_io_executor executor, std::function<void()> passed)
      : executor_(std::move(executor)), passed_(std::move(passed)) {}

  // Throws std::bad_alloc.
  void set(Time at, std::weak_ptr<const void> owner);
  void clear() { at_ = Time::max(); }

 private:
  void tick(std::weak_ptr<const void> owner);
  void fired(std::weak_ptr<const void> owner);

  boost::asio::any_io_executor executor_;
  std::function<void()> passed_;
  std::optional<boost::asio::steady_timer> timer_;  // from the first deadline on
  Time at_ = Time::max();
  bool ticking_ = false;  // the timer runs
};

}  // namespace martlet::net
