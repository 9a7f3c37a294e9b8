#include "gateway/spawn.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

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

template <class Exception>
asio::awaitable<void> fail(asio::io_context& io, Exception exception) {
  co_await wait(io);
  throw exception;
}

TEST(GatewaySpawn, WhatEndsWellIsNotLost) {
  asio::io_context io;
  int lost = 0;
  spawn(
      io, [&io] { return wait(io); }, [&lost](const Error&) { ++lost; });
  io.run();
  EXPECT_EQ(lost, 0);
}

TEST(GatewayFaults, G5_WhatFindsNoMemoryIsLostOnceWhereverThatWas) {
  for (const bool at_once : {true, false}) {
    asio::io_context io;
    int lost = 0;
    spawn(
        io, [&] { return starve(io, at_once); }, [&lost](const Error&) { ++lost; });
    io.run();
    EXPECT_EQ(lost, 1) << at_once;
  }
  asio::io_context io;
  int lost = 0;
  spawn(
      io, []() -> asio::awaitable<void> { throw std::bad_alloc(); }, [&lost](const Error&) { ++lost; });
  io.run();
  EXPECT_EQ(lost, 1) << "before there was a coroutine";
}

TEST(GatewayFaults, G5_WhatIsDestroyedWhileItWaitsIsLostUnlessAllIsOver) {
  for (const bool stopped : {true, false}) {
    int lost = 0;
    {
      asio::io_context io;
      spawn(
          io, [&io] { return wait(io); }, [&lost](const Error&) { ++lost; });
      io.poll();
      if (stopped) io.stop();
      if (!stopped) io.restart();
    }
    EXPECT_EQ(lost, stopped ? 0 : 1);
  }
}

TEST(GatewaySpawn, LostIsToldWhetherItWasMemory) {
  const auto ends_with = [](auto thrown) {
    asio::io_context io;
    std::string code;
    spawn(
        io, [&io, thrown] { return fail(io, thrown); }, [&code](const Error& error) { code = error.code; });
    io.run();
    return code;
  };
  EXPECT_EQ(ends_with(std::bad_alloc()), "out_of_memory");
  EXPECT_EQ(ends_with(std::logic_error("")), "internal_error");
}

TEST(GatewayFaults, G5_WhatMustNotEndIsBegunAgainUntilItIsDone) {
  asio::io_context io;
  int begun = 0;
  std::vector<std::string> told;
  spawn_until_done(
      io, [&] { return ++begun < 3 ? starve(io, begun == 1) : wait(io); },
      [&told](const Error& error) { told.push_back(error.code); });
  io.run();
  EXPECT_EQ(begun, 3);
  EXPECT_EQ(told, (std::vector<std::string>{"out_of_memory", "out_of_memory"}));
}

}  // namespace
}  // namespace martlet::gateway
