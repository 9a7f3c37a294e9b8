// Who is served next.

#include "engine/manual_engine.h"

namespace martlet {
namespace {

// Remembers in which order requests began.
class Order final : public RequestSink {
 public:
  Order(std::vector<int>& began, int name) : began_(began), name_(name) {}
  void on_tokens(std::span<const Emitted>) override {
    if (!std::exchange(seen_, true)) began_.push_back(name_);
  }
  void on_finish(const Finish&) override {}

 private:
  std::vector<int>& began_;
  const int name_;
  bool seen_ = false;
};

struct Line {
  ManualEngine engine{{.pages = 1024, .max_sequences = 1}};
  std::vector<int> began;

  RequestId ask(int name, int32_t priority = 0, int32_t tenant = 0, int32_t tokens = 2) {
    Request request = greedy({name}, tokens);
    request.priority = priority;
    request.tenant = tenant;
    return engine.submit(request, std::make_shared<Order>(began, name));
  }
};

TEST(Admission, ByArrivalAndPriority) {
  Line line;
  line.ask(1);
  line.ask(2, 5);
  line.ask(3, -1);
  line.ask(4);
  line.engine.run();
  EXPECT_EQ(line.began, (std::vector<int>{3, 1, 4, 2}));
}

TEST(Admission, PriorityIsTimeSoNobodyStarves) {
  Line line;
  line.ask(0, 100);
  for (int i = 1; i <= 150; ++i) {  // somebody more urgent each second
    line.engine.now += std::chrono::seconds(1);
    line.ask(i, 0);
    line.engine.step();
    line.engine.step();
  }
  line.engine.run();
  const auto place = std::find(line.began.begin(), line.began.end(), 0) - line.began.begin();
  EXPECT_LE(place, 101);
}

TEST(Admission, TenantsTakeTurns) {
  ManualEngine engine({.pages = 1024, .max_sequences = 4});
  std::vector<int> began;
  for (int i = 0; i < 40; ++i) {
    Request request = greedy({i}, 20);
    request.tenant = i < 36 ? 1 : 2;  // the second comes last
    engine.submit(request, std::make_shared<Order>(began, i));
  }
  engine.step();
  int second = 0;
  for (const int name : began) second += name >= 36;
  EXPECT_EQ(began.size(), 4u);
  EXPECT_EQ(second, 2) << "half of the places, though 36 came before";
}

// The victim is the last in rank and the first always goes on, so that everybody ends.
TEST(Admission, PreemptedSequencesEndToo) {
  ManualEngine engine({.page_tokens = 4, .pages = 32, .context = 128, .max_sequences = 8});
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (Token t = 0; t < 12; ++t) sinks.push_back(engine.submit(greedy({t, 1, 2}, 100)));
  engine.run();
  for (Token t = 0; t < 12; ++t) EXPECT_EQ(sinks[static_cast<size_t>(t)]->output(), expected_output({t, 1, 2}, 100));
  EXPECT_GT(engine.scheduler.stats().preemptions, 0u);
}

TEST(Admission, OneTenantCannotHoldEveryPlace) {
  FakeEngine fake({.max_sequences = 2, .max_queue = 6, .max_tenant_requests = 3});
  fake.controls->step_milliseconds = kUnhurried;
  const auto ask = [&](int32_t tenant) {
    Request request = greedy({1, 2}, 60);
    request.tenant = tenant;
    return fake.engine->submit(request, std::make_shared<RecordingSink>());
  };
  std::vector<RequestId> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(*ask(1));
  const auto refused = ask(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "tenant_limit");
  EXPECT_EQ(refused.error().kind, ErrorKind::unavailable);
  EXPECT_TRUE(ask(2)) << "others are not concerned";
  fake.engine->cancel(ids[2]);
  fake.stats_when([](const EngineStats& s) { return s.requests_finished == 1; });
  EXPECT_TRUE(ask(1)) << "a place that became free";
}

}  // namespace
}  // namespace martlet
