#include "bench/session.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bench/http_instance.h"
#include "bench/scripted_server.h"

namespace martlet::bench {
namespace {

using std::chrono::milliseconds;

// Its processes are scripted servers, one after another.
class ScriptedTarget : public Target {
 public:
  explicit ScriptedTarget(std::vector<ScriptedServer*> servers)
      : Target({.name = "scripted", .version = "", .command = "", .weight_bytes_per_token = 0}),
        servers_(std::move(servers)) {}
  Result<std::unique_ptr<Instance>> start(const StopAsked&) override {
    Endpoint endpoint{"127.0.0.1", servers_.at(started_++)->port(), "", "m", ""};
    return std::unique_ptr<Instance>(std::make_unique<HttpInstance>(std::move(endpoint)));
  }

 private:
  std::vector<ScriptedServer*> servers_;
  size_t started_ = 0;
};

bench::Run run_turn(std::vector<ScriptedServer*> servers, const Turn& turn, int warmup_batches) {
  Amounts amounts = quick_amounts();
  amounts.warmup_batches = warmup_batches;
  std::vector<std::unique_ptr<Target>> targets;
  targets.push_back(std::make_unique<ScriptedTarget>(std::move(servers)));
  bench::Run measured;
  const Listener listener{.doing = [](const Turn&, const char*) {},
                          .answered = [](const Turn&, const Measurement& m) { EXPECT_TRUE(m.ok()) << m.error; },
                          .measured = [&](bench::Run run) { measured = std::move(run); },
                          .stop = [] { return false; }};
  EXPECT_TRUE(run_session(targets, amounts, {turn}, listener));
  return measured;
}

TEST(Session, EachProcessIsWarmedByItself) {
  ScriptedServer slow({.first = milliseconds(100), .between = milliseconds(20), .tokens = 3});
  ScriptedServer fast({.first = milliseconds(1), .between = milliseconds(1), .tokens = 3});
  const bench::Run run =
      run_turn({&slow, &fast}, {.kind = Kind::dispatch, .instances = 2, .warmup = 2, .measured = 8}, 1);
  ASSERT_EQ(run.requests.size(), 8u);
  ASSERT_TRUE(run.cold);
  EXPECT_GT(ttft(*run.cold), 0.1) << "of the first process";
  const auto of_slow = static_cast<size_t>(
      std::count_if(run.requests.begin(), run.requests.end(), [](const Measurement& m) { return m.instance == 0; }));
  EXPECT_LT(of_slow, 4u) << "what is measured comes from one queue";
  EXPECT_EQ(slow.truths().size() - of_slow, 3u) << "a cold request and two";
  EXPECT_EQ(fast.truths().size() - (8 - of_slow), 3u);
}

TEST(Session, RatesThatDoNotSettleAreNoise) {
  ScriptedServer steady({.first = milliseconds(1), .between = milliseconds(10), .tokens = 5});
  ScriptedServer slower({.first = milliseconds(1), .between = milliseconds(2), .tokens = 5, .slower = milliseconds(5)});
  const auto run = [](ScriptedServer& server, int batches) {
    return run_turn({&server}, {.warmup = 2, .measured = 1}, batches).noise;
  };
  const std::vector<std::string> unsettled = {"rates had not settled after the warm-up"};
  // Times per token of 10 ms may differ by a twentieth beside other programs.
  bool settled = false;
  for (int i = 0; i < 5 && !settled; ++i) settled = run(steady, 3).empty();
  EXPECT_TRUE(settled);
  EXPECT_EQ(run(slower, 3), unsettled);
  EXPECT_EQ(slower.truths().size(), 1 + 3 * 2 + 1u) << "cold, three times two, measured";
}

}  // namespace
}  // namespace martlet::bench
