#include "bench/schedule.h"

#include <gtest/gtest.h>

#include "bench/recorder.h"
#include "bench/server_kinds.h"

namespace martlet::bench {
namespace {

TEST(Schedule, EnginesTakeTurnsUnderEachLoad) {
  Amounts amounts = contract_amounts();
  amounts.kinds = {Kind::single, Kind::dispatch};
  std::vector<std::string> seen;
  for (const Turn& t : schedule(amounts, {true, false, true}))
    seen.push_back(std::string(kind_name(t.kind)) + std::to_string(t.instances) + std::to_string(t.target) +
                   std::to_string(t.round));
  EXPECT_EQ(seen, (std::vector<std::string>{"single100", "single110", "single120", "single101", "single111",
                                            "single121", "dispatch100", "dispatch120", "dispatch101", "dispatch121",
                                            "dispatch200", "dispatch220", "dispatch201", "dispatch221", "dispatch300",
                                            "dispatch320", "dispatch301", "dispatch321"}));
}

TEST(Schedule, CountsAreTheContracts) {
  const std::vector<Turn> turns = schedule(contract_amounts(), {true});
  ASSERT_EQ(turns.size(), 2u * (1 + 5 + 3));
  EXPECT_EQ(turns[0].warmup, 3);
  EXPECT_EQ(turns[0].measured, 20);
  EXPECT_EQ(turns[2].warmup, 4);
  EXPECT_EQ(turns[2].measured, 16);
  EXPECT_EQ(turns[10].concurrency, 32);
  EXPECT_EQ(turns[10].measured, 32) << "each stream has a request";
  EXPECT_EQ(turns[16].instances, 3);
  EXPECT_EQ(turns[16].warmup, 6);
  EXPECT_EQ(turns[16].measured, 16);
}

TEST(ServerKinds, WordsAreFilledIn) {
  const Values values = {{"model", "/a b/{port}.gguf"}, {"port", "80"}};
  EXPECT_EQ(expand_words("serve {model}  --port {port} {other} }{ {", values),
            (std::vector<std::string>{"serve", "/a b/{port}.gguf", "--port", "80", "{other}", "}{", "{"}));
  for (const ServerKind& kind : server_kinds()) EXPECT_EQ(find_server_kind(kind.name), &kind);
  EXPECT_EQ(find_server_kind("else"), nullptr);
}

TEST(TimeLeft, FollowsWhatWasDone) {
  TimeLeft left(10);
  EXPECT_LT(left.seconds(5), 0);
  left.done(4);
  EXPECT_DOUBLE_EQ(left.seconds(20), 30);
}

}  // namespace
}  // namespace martlet::bench
