#include "gateway/dispatcher.h"

#include <gtest/gtest.h>

#include <optional>

namespace martlet::gateway {
namespace {

using namespace std::chrono_literals;

// Upstreams that are up from the start.
class Fleet {
 public:
  explicit Fleet(std::vector<UpstreamTraits> traits, DispatcherOptions options = {}) : dispatcher(traits, options) {
    for (auto& instance : dispatcher.instances()) {
      instance.preparing = false;
      instance.breaker.probed(Probe::ok, false, Time{});
    }
  }
  // The instance that a request gets at once; -1: it waits; -2: an error, whose code `code` has.
  int ask(Wish wish = {}) {
    int out = -1;
    dispatcher.request(std::move(wish), now, [&, this](Result<size_t> result) {
      if (!result) code = result.error().code;
      out = result ? static_cast<int>(*result) : -2;
    });
    return out;
  }
  Dispatcher dispatcher;
  std::string code;
  Time now{};
};

UpstreamTraits favoured() {
  UpstreamTraits out;
  out.favoured = true;
  return out;
}
UpstreamTraits standby() {
  UpstreamTraits out;
  out.standby = true;
  return out;
}

TEST(Dispatcher, PrefersThenTakesTheStandby) {
  Fleet fleet({standby(), favoured()});
  EXPECT_EQ(fleet.ask(), 1);
  fleet.dispatcher.instances()[1].breaker.failed(fleet.dispatcher.instances()[1].breaker.era(), true, fleet.now);
  EXPECT_EQ(fleet.ask(), 0);
}

TEST(Dispatcher, AFullPreferredOneLeavesRoomForTheStandby) {
  UpstreamTraits first = favoured();
  first.limit = 2;
  Fleet fleet({first, standby()});
  EXPECT_EQ(fleet.ask(), 0);
  EXPECT_EQ(fleet.ask(), 0);
  EXPECT_EQ(fleet.ask(), 1);
}

TEST(Dispatcher, BalancesByLoad) {
  UpstreamTraits many;
  many.instances = 4;
  Fleet fleet({many});
  std::vector<int> load(4);
  for (int i = 0; i < 20; ++i) {
    Wish wish;
    wish.prefix = static_cast<uint64_t>(i);
    ++load[fleet.ask(wish)];
  }
  EXPECT_EQ(load, std::vector<int>(4, 5));
}

TEST(Dispatcher, EqualLoadGoesByPrefix) {
  UpstreamTraits many;
  many.instances = 8;
  Fleet fleet({many});
  std::vector<bool> seen(8);
  for (uint64_t prefix = 0; prefix < 64; ++prefix) {
    Wish wish;
    wish.prefix = prefix * 1000003;
    const int first = fleet.ask(wish);
    fleet.dispatcher.release(first);
    const int second = fleet.ask(wish);
    fleet.dispatcher.release(second);
    EXPECT_EQ(first, second);
    seen[first] = true;
  }
  EXPECT_EQ(seen, std::vector<bool>(8, true));
}

TEST(Dispatcher, OneQueueForAllInstances) {
  UpstreamTraits single;
  single.limit = 1;
  single.instances = 2;
  Fleet fleet({single});
  fleet.ask();
  fleet.ask();
  std::vector<size_t> order;
  for (int i = 0; i < 2; ++i) {
    fleet.dispatcher.request({}, fleet.now, [&](Result<size_t> result) { order.push_back(*result); });
  }
  EXPECT_EQ(fleet.dispatcher.waiting(), 2u);
  fleet.dispatcher.release(1);
  fleet.dispatcher.settle(fleet.now);
  EXPECT_EQ(order, std::vector<size_t>{1});
  fleet.dispatcher.release(0);
  fleet.dispatcher.settle(fleet.now);
  EXPECT_EQ(order, (std::vector<size_t>{1, 0}));
}

TEST(Dispatcher, WaitingHasBounds) {
  UpstreamTraits single;
  single.limit = 1;
  Fleet fleet({single}, {.queue = 1, .queue_time = 10s});
  EXPECT_EQ(fleet.ask(), 0);
  std::string code;
  fleet.dispatcher.request({}, fleet.now, [&](Result<size_t> result) { code = result.error().code; });
  EXPECT_EQ(fleet.ask(), -2);
  EXPECT_EQ(fleet.code, "queue_full");
  fleet.dispatcher.settle(fleet.now + 9s);
  EXPECT_EQ(code, "");
  fleet.dispatcher.settle(fleet.now + 10s);
  EXPECT_EQ(code, "queue_timeout");
}

TEST(Dispatcher, NobodyWaitsForNobody) {
  UpstreamTraits single;
  single.limit = 1;
  Fleet fleet({single});
  fleet.ask();
  std::string code;
  fleet.dispatcher.request({}, fleet.now, [&](Result<size_t> result) { code = result.error().code; });
  fleet.dispatcher.instances()[0].breaker.failed(fleet.dispatcher.instances()[0].breaker.era(), true, fleet.now);
  fleet.dispatcher.settle(fleet.now);
  EXPECT_EQ(code, "no_upstream");
  EXPECT_EQ(fleet.ask(), -2);
}

TEST(Dispatcher, MemoryPressureAvoidsTheUnbounded) {
  UpstreamTraits mlx = favoured();
  mlx.bounded = false;
  Fleet fleet({mlx, standby()});
  EXPECT_EQ(fleet.ask(), 0);
  fleet.dispatcher.set_pressure(Pressure::warning);
  EXPECT_EQ(fleet.ask(), 1);
  fleet.dispatcher.instances()[1].draining = true;
  EXPECT_EQ(fleet.ask(), 0) << "better than nothing";
  fleet.dispatcher.set_pressure(Pressure::critical);
  EXPECT_EQ(fleet.ask(), -2) << "not at any price";
}

TEST(Dispatcher, WhoAnswersDifferentlyGetsNothing) {
  Fleet fleet({favoured(), standby()});
  fleet.dispatcher.set_apart(1, true);
  fleet.dispatcher.instances()[0].breaker.failed(fleet.dispatcher.instances()[0].breaker.era(), true, fleet.now);
  EXPECT_EQ(fleet.ask(), -2);
}

TEST(Dispatcher, PromptsAvoidShapesThatAreNotCompiled) {
  UpstreamTraits compiles = favoured();
  compiles.compiles = true;
  Fleet fleet({compiles, standby()});
  const auto ask = [&](int64_t tokens) {
    Wish wish;
    wish.tokens = tokens;
    return fleet.ask(wish);
  };
  EXPECT_EQ(ask(1000), 1) << "none is warm";
  fleet.dispatcher.instances()[0].warm_buckets = 512 | 1024 | 4096;
  EXPECT_EQ(ask(1000), 0);
  EXPECT_EQ(ask(1025), 1) << "smaller than another that is warm, and cold all the same";
  EXPECT_EQ(ask(4096), 0);
  EXPECT_EQ(ask(4097), 1);
}

TEST(Dispatcher, PoorDraftsGoToTheInstanceWithout) {
  UpstreamTraits drafts = favoured();
  drafts.drafts = true;
  Fleet fleet({drafts, standby()});
  EXPECT_EQ(fleet.ask(), 0);
  Wish wish;
  wish.without_drafts = true;
  EXPECT_EQ(fleet.ask(wish), 1);
}

TEST(Dispatcher, ModelsAreApart) {
  UpstreamTraits other;
  other.model = 1;
  Fleet fleet({favoured(), other});
  Wish wish;
  wish.model = 1;
  EXPECT_EQ(fleet.ask(wish), 1);
  fleet.dispatcher.instances()[1].breaker.failed(fleet.dispatcher.instances()[1].breaker.era(), true, fleet.now);
  EXPECT_EQ(fleet.ask(wish), -2);
}

TEST(Dispatcher, AWithdrawnRequestIsNotServed) {
  UpstreamTraits single;
  single.limit = 1;
  Fleet fleet({single});
  fleet.ask();
  const auto ticket = fleet.dispatcher.request({}, fleet.now, [](Result<size_t>) { FAIL(); });
  fleet.dispatcher.withdraw(ticket);
  fleet.dispatcher.release(0);
  fleet.dispatcher.settle(fleet.now);
  EXPECT_EQ(fleet.dispatcher.instances()[0].running, 0);
}

}  // namespace
}  // namespace martlet::gateway
