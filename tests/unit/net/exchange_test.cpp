#include "net/exchange.h"

#include <gtest/gtest.h>

namespace martlet::net {
namespace {

struct Counted {
  int wakes = 0;
  Exchange exchange{HttpRequest{}, 100, [this] { ++wakes; }};
};

TEST(Exchange, CarriesAStream) {
  Counted c;
  c.exchange.begin_stream({.content_type = "text/event-stream"}, ": hi\n\n");
  c.exchange.write("a");
  c.exchange.write("b");
  c.exchange.end(true);
  EXPECT_EQ(c.wakes, 4);
  const Exchange::Output out = c.exchange.take();
  EXPECT_TRUE(out.head && out.stream && out.done && out.close);
  EXPECT_EQ(out.bytes, "ab");
  EXPECT_EQ(c.exchange.filler(), ": hi\n\n");
}

TEST(Exchange, TellsOnceThatThePeerLeft) {
  Counted c;
  int told = 0;
  c.exchange.on_close([&] { ++told; });
  c.exchange.close();
  c.exchange.close();
  EXPECT_EQ(told, 1);
  c.exchange.on_close([&] { ++told; });
  EXPECT_EQ(told, 2);
}

TEST(Exchange, SaysNothingAfterACompleteAnswer) {
  Counted c;
  int told = 0;
  c.exchange.on_close([&] { ++told; });
  c.exchange.reply({});
  c.exchange.reply({.status = 500});
  c.exchange.close();
  EXPECT_EQ(told, 0);
  EXPECT_EQ(c.exchange.status(), 200);
}

TEST(HttpFaults, D10_BoundedBuffer) {
  Counted c;
  int told = 0;
  c.exchange.on_close([&] { ++told; });
  c.exchange.begin_stream({}, {});
  c.exchange.stalled(true);
  c.exchange.write(std::string(100, 'x'));
  EXPECT_FALSE(c.exchange.closed());
  c.exchange.write("y");
  EXPECT_TRUE(c.exchange.take().bytes.empty());
  EXPECT_TRUE(c.exchange.closed());
  EXPECT_EQ(told, 1);
}

// An event of many scored tokens, and several of them in one step, are larger than what may wait for a slow reader.
TEST(Exchange, ABurstIsNotAPeerThatDoesNotRead) {
  Counted c;
  c.exchange.begin_stream({}, {});
  c.exchange.write(std::string(90, 'x'));
  c.exchange.write(std::string(300, 'y'));
  EXPECT_EQ(c.exchange.take().bytes.size(), 390u);
  c.exchange.stalled(true);
  c.exchange.write(std::string(300, 'z'));
  EXPECT_EQ(c.exchange.take().bytes.size(), 300u);
  EXPECT_FALSE(c.exchange.closed());
}

}  // namespace
}  // namespace martlet::net
