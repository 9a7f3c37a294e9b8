#include "gateway/spawn.h"

#include <gtest/gtest.h>

#include <new>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace martlet::gateway {
namespace {

namespace asio = boost::asio;

asio::awaitable<void> wait(asio::io_context& io) {
  asio::steady_timer timer(io, std::chrono::milliseconds(1));
  co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
}

asio::awaitable<void> starve(asio::io_context& io, bool at_once) {
  if (!at_once) co_await wait(io);
  throw std::bad_alloc();
}

TEST(GatewaySpawn, WhatEndsWellIsNotLost) {
  asio::io_context io;
  int lost = 0;
  spawn(
      io, [&io] { return wait(io); }, [&lost] { ++lost; });
  io.run();
  EXPECT_EQ(lost, 0);
}

TEST(GatewayFaults, G5_WhatFindsNoMemoryIsLostOnceWhereverThatWas) {
  for (const bool at_once : {true, false}) {
    asio::io_context io;
    int lost = 0;
    spawn(
        io, [&] { return starve(io, at_once); }, [&lost] { ++lost; });
    io.run();
    EXPECT_EQ(lost, 1) << at_once;
  }
  asio::io_context io;
  int lost = 0;
  spawn(
      io, []() -> asio::awaitable<void> { throw std::bad_alloc(); }, [&lost] { ++lost; });
  io.run();
  EXPECT_EQ(lost, 1) << "before there was a coroutine";
}

TEST(GatewayFaults, G5_WhatIsDestroyedWhileItWaitsIsLostUnlessAllIsOver) {
  for (const bool stopped : {true, false}) {
    int lost = 0;
    {
      asio::io_context io;
      spawn(
          io, [&io] { return wait(io); }, [&lost] { ++lost; });
      io.poll();
      if (stopped) io.stop();
      if (!stopped) io.restart();
    }
    EXPECT_EQ(lost, stopped ? 0 : 1);
  }
}

TEST(GatewayFaults, G5_WhatMustNotEndIsBegunAgainUntilItIsDone) {
  asio::io_context io;
  int begun = 0;
  spawn_until_done(io, [&] { return ++begun < 3 ? starve(io, begun == 1) : wait(io); });
  io.run();
  EXPECT_EQ(begun, 3);
}

}  // namespace
}  // namespace martlet::gateway
