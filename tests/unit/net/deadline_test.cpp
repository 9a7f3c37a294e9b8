#include "net/deadline.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

namespace martlet::net {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

struct Owner : std::enable_shared_from_this<Owner> {
  explicit Owner(boost::asio::io_context& io) : deadline(io.get_executor(), [passed = passed] { ++*passed; }) {}
  void set(std::chrono::milliseconds time) { deadline.set(Clock::now() + time, weak_from_this()); }
  const std::shared_ptr<int> passed = std::make_shared<int>(0);
  Deadline deadline;
};

TEST(Deadline, PassesOnceForEachThatWasSet) {
  boost::asio::io_context io;
  const auto owner = std::make_shared<Owner>(io);
  const auto begun = Clock::now();
  owner->set(10ms);
  io.run();
  EXPECT_EQ(*owner->passed, 1);
  EXPECT_GE(Clock::now() - begun, 10ms);
  owner->set(1ms);
  io.restart();
  io.run();
  EXPECT_EQ(*owner->passed, 2);
}

TEST(Deadline, CountsFromTheLastTimeThatItWasSet) {
  boost::asio::io_context io;
  const auto owner = std::make_shared<Owner>(io);
  const auto begun = Clock::now();
  owner->set(5ms);
  owner->set(40ms);
  io.run();
  EXPECT_EQ(*owner->passed, 1);
  EXPECT_GE(Clock::now() - begun, 40ms);
}

TEST(Deadline, MayComeNearer) {
  boost::asio::io_context io;
  const auto owner = std::make_shared<Owner>(io);
  const auto begun = Clock::now();
  owner->set(1h);
  owner->set(5ms);
  io.run_for(10s);
  EXPECT_EQ(*owner->passed, 1);
  EXPECT_LT(Clock::now() - begun, 10s);
}

TEST(Deadline, DoesNotPassOnceItIsCleared) {
  boost::asio::io_context io;
  const auto owner = std::make_shared<Owner>(io);
  owner->set(5ms);
  owner->deadline.clear();
  io.run();
  EXPECT_EQ(*owner->passed, 0);
  owner->set(5ms);
  io.restart();
  io.run();
  EXPECT_EQ(*owner->passed, 1);
}

TEST(Deadline, MayOutliveNobody) {
  boost::asio::io_context io;
  auto owner = std::make_shared<Owner>(io);
  owner->set(5ms);
  const auto passed = owner->passed;
  owner.reset();
  io.run();
  EXPECT_EQ(*passed, 0);
}

}  // namespace
}  // namespace martlet::net
