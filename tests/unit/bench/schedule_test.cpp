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
  EXPECT_EQ(turns[16].warmup, 2) << "each";
  EXPECT_EQ(turns[16].measured, 16);
}

TEST(Schedule, EnginesAreToldTheMostThatRunAtOnce) {
  EXPECT_EQ(most_at_once(contract_amounts()), 32);
  EXPECT_EQ(most_at_once(quick_amounts()), 4);
  Amounts amounts = contract_amounts();
  ASSERT_TRUE(choose_loads(amounts, {"sweep:8", "dispatch:3"}));
  EXPECT_EQ(most_at_once(amounts), 8);
  ASSERT_TRUE(choose_loads(amounts, {"dispatch:3"}));
  EXPECT_EQ(most_at_once(amounts), 1) << "each process answers one at a time";
}

TEST(Schedule, LoadsAreChosenByNameAndCount) {
  const auto chosen = [](const std::vector<std::string>& names) {
    Amounts amounts = contract_amounts();
    amounts.rounds = 1;
    std::string out;
    if (!choose_loads(amounts, names)) return std::string("refused");
    for (const Turn& t : schedule(amounts, {true}))
      out += std::string(kind_name(t.kind)) + std::to_string(std::max(t.concurrency, t.instances)) + " ";
    return out;
  };
  EXPECT_EQ(chosen({"sweep:32", "single", "sweep:1"}), "single1 sweep1 sweep32 ");
  EXPECT_EQ(chosen({"dispatch", "dispatch:2"}), "dispatch1 dispatch2 dispatch3 ");
  for (const char* bad : {"sweep:2", "sweep:", "sweep:032", "single:1", "double", ""})
    EXPECT_EQ(chosen({"single", bad}), "refused") << bad;
}

TEST(ServerKinds, WordsAreFilledIn) {
  const Values values = {{"model", "/a b/{port}.gguf"}, {"port", "80"}};
  EXPECT_EQ(expand_words("serve {model}  --port {port} {other} }{ {", values),
            (std::vector<std::string>{"serve", "/a b/{port}.gguf", "--port", "80", "{other}", "}{", "{"}));
  for (const ServerKind& kind : server_kinds()) {
    EXPECT_EQ(find_server_kind(kind.name), &kind);
    EXPECT_FALSE(!kind.model.empty() && kind.ready.empty()) << kind.name << ": nothing says when it is ready";
  }
  EXPECT_EQ(find_server_kind("else"), nullptr);
}

TEST(ServerKinds, WordsAreToldWithoutFolders) {
  for (const auto& [word, told] : {std::pair{"/home/me/bin/python", "python"}, std::pair{"python3", "python3"},
                                   std::pair{"mlx-lm=/opt/mlx/", "mlx-lm=mlx"}, std::pair{"--port=80", "--port=80"},
                                   std::pair{"a=http://h:1/v1", "a=http://h:1/v1"}, std::pair{"models/x", "models/x"},
                                   std::pair{"/a b/c d.gguf", "c d.gguf"}, std::pair{"", ""}})
    EXPECT_EQ(without_folders(word), told) << word;
}

TEST(TimeLeft, FollowsWhatWasDone) {
  TimeLeft left;
  left.add(0, 10);
  left.add(1, 4);
  EXPECT_LT(left.seconds(), 0);
  left.done(0, 4, 20);
  EXPECT_DOUBLE_EQ(left.seconds(), 6 * 5 + 4 * 5) << "the second is taken to be as fast";
  left.done(1, 2, 100);
  EXPECT_DOUBLE_EQ(left.seconds(), 6 * 5 + 2 * 50);
}

}  // namespace
}  // namespace martlet::bench
