#include "bench/result.h"

#include <gtest/gtest.h>

namespace martlet::bench {
namespace {

RunFile sample() {
  RunFile file;
  file.contract_version = 1;
  file.model = "smollm2";
  file.machine = {"a processor", "a system", 2, 23.5, 31.25, 30, 123.5};
  file.matrices = {1e9, 2e8};
  file.prompt_tokens = {20, 41};
  file.noise = {"load 1.5"};
  file.engines = {{"martlet", "0.1.0", "in process", 98e6, R"({"x":1})", true}};
  Run run;
  run.engine = "martlet";
  run.kind = Kind::sweep;
  run.concurrency = 8;
  run.cold.emplace().output_tokens = 3;
  run.requests.resize(2);
  run.requests[1].text = "\xC3\xA9 \"quoted\"\n";
  run.requests[1].first_token = 0.1;
  run.energy_j = 1.5;
  run.of_bandwidth = 0.75;
  run.of_peak = 0.5;
  file.runs = {run, Run{}};
  return file;
}

TEST(Result, ComesBackAsItWasWritten) {
  const std::string text = to_json(sample());
  const auto back = from_json(text, "x.json");
  ASSERT_TRUE(back) << back.error().line();
  EXPECT_EQ(to_json(*back), text);
  EXPECT_EQ(back->runs[0].kind, Kind::sweep);
  EXPECT_EQ(back->prompt_tokens, (std::vector<int>{20, 41}));
  EXPECT_EQ(back->engines[0].request, R"({"x":1})");
  EXPECT_TRUE(back->engines[0].on_processor);
  EXPECT_EQ(back->runs[0].requests[1].text, sample().runs[0].requests[1].text);
  EXPECT_FALSE(back->runs[1].cold);
}

TEST(Result, NamesTheMemberThatIsWrong) {
  const std::string text = to_json(sample());
  const auto problem = [&](const std::string& from, const std::string& to) {
    std::string broken = text;
    broken.replace(broken.find(from), from.size(), to);
    const auto read = from_json(broken, "x.json");
    return read ? std::string("accepted") : read.error().where;
  };
  EXPECT_EQ(problem("\"cores\":2", "\"cores\":\"2\""), "x.json: machine.cores");
  EXPECT_EQ(problem("\"cores\":2", "\"cores\":1e300"), "x.json: machine.cores");
  EXPECT_EQ(problem("\"sweep\"", "\"swoop\""), "x.json: runs[0].kind");
  EXPECT_EQ(problem("\"noise\"", "\"noice\""), "x.json: noise");
  EXPECT_EQ(problem("martlet-bench-2", "martlet-bench-1"), "x.json");
  EXPECT_EQ(from_json("[", "x.json").error().where, "x.json");
  EXPECT_EQ(from_json("{}", "x.json").error().where, "x.json");
}

}  // namespace
}  // namespace martlet::bench
