#include "bench/report.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "bench/comparison.h"
#include "bench/plot.h"
#include "bench/recorder.h"

namespace martlet::bench {
namespace {

Measurement answer(double start, double ttft, double per_token, int tokens) {
  Measurement m;
  m.offered = m.sent = start;
  m.first_token = start + ttft;
  m.last_token = m.first_token + per_token * (tokens - 1);
  m.output_tokens = tokens;
  return m;
}

// Ten answers one after another, `slower` times as slow.
Run run_of(const std::string& engine, int round, double slower) {
  Run run;
  run.engine = engine;
  run.round = round;
  for (int i = 0; i < 10; ++i)
    run.requests.push_back(answer(10 * i * slower, 0.1 * slower, (0.01 + 0.0001 * i) * slower, 11));
  return run;
}

RunFile file_of(double slower) {
  RunFile file;
  file.contract_version = 1;
  file.contract_sha256 = "x";
  file.model = "<b>model</b>";
  file.date = "2026-01-01T00:00:00Z";
  file.machine.bandwidth_gb_s = 10;
  file.machine.int8_peak_gops = 100;
  file.engines = {{"a&b", "1", "run", 50e6}, {"slow", "2", "run", 0}};
  file.runs = {run_of("a&b", 0, slower), run_of("slow", 0, 2 * slower), run_of("a&b", 1, slower)};
  return file;
}

TEST(Report, PoolsTheRoundsOfALoad) {
  const std::vector<Cell> cells = pool(file_of(1).runs);
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[0].requests.size(), 20u);
  EXPECT_EQ(cells[0].aggregate_rates.size(), 2u);
  EXPECT_EQ(cells[1].requests.size(), 10u);
}

TEST(Report, RoundsThatDifferAreNamed) {
  EXPECT_TRUE(unsteady(file_of(1).runs).empty());
  EXPECT_EQ(unsteady({run_of("a", 0, 1), run_of("a", 1, 1.2), run_of("b", 0, 1), run_of("b", 1, 1.05)}),
            std::vector<std::string>{"a: its rounds differ by 20 %"});
}

// How often `text` stands in `page`.
size_t count(const std::string& page, const std::string& text) {
  size_t found = 0;
  for (size_t at = page.find(text); at != page.npos; at = page.find(text, at + 1)) ++found;
  return found;
}

TEST(Report, ShowsWhatIsKnownAndHoldsLargerLoadsAgainstTheSmallest) {
  RunFile file = file_of(1);
  bench::Run one = run_of("a&b", 0, 2), eight = run_of("a&b", 0, 1);
  one.kind = eight.kind = Kind::sweep;
  eight.concurrency = 8;
  one.of_peak = 0.12, eight.of_peak = 0.6;
  one.harness_cores = 0.004;
  file.runs = {one, eight};
  const std::string page = *html_report({file});
  EXPECT_EQ(count(page, "(×2)"), 1u) << "twice the rate";
  EXPECT_EQ(count(page, "60&thinsp;%"), 1u);
  EXPECT_NE(page.find("% of 100 GOP/s"), page.npos);
  EXPECT_NE(page.find("took 0.4&thinsp;% of a core"), page.npos);
  EXPECT_NE(page.find("does not tell its energy"), page.npos);
  EXPECT_EQ(page.find("energy J"), page.npos) << "a column that nobody fills";
  EXPECT_EQ(page.find("with queue"), page.npos);
  file.runs[0].kind = file.runs[1].kind = Kind::dispatch;
  file.runs[1].energy_j = 5;
  const std::string other = *html_report({file});
  EXPECT_EQ(count(other, "<th>energy J</th>"), 1u);
  EXPECT_EQ(count(other, "<th>with queue</th>"), 1u);
  EXPECT_NE(other.find("<td>–</td>"), other.npos) << "the other one's energy";
}

TEST(Report, EscapesWhatResultsSay) {
  const auto page = html_report({file_of(1)});
  ASSERT_TRUE(page);
  EXPECT_EQ(page->find("<b>"), page->npos);
  EXPECT_NE(page->find("a&amp;b"), page->npos);
  EXPECT_NE(page->find("<svg"), page->npos);
  EXPECT_EQ(page->find("<script"), page->npos);
}

TEST(Report, ComparesOnlyWhatFollowsOneContract) {
  const auto text = text_comparison(file_of(1), file_of(2));
  ASSERT_TRUE(text);
  EXPECT_NE(text->find("TTFT      x 2.000"), text->npos) << *text;
  EXPECT_NE(text->find("tokens/s  x 0.500"), text->npos) << *text;
  EXPECT_NE(text->find("together  x 0.500 (medians of 2 and 2 rounds)"), text->npos) << *text;
  EXPECT_EQ(text->find("no certain change"), text->npos);
  EXPECT_NE(text_comparison(file_of(1), file_of(1))->find("x 1.000"), text->npos);
  RunFile other = file_of(1);
  other.contract_version = 2;
  EXPECT_EQ(text_comparison(file_of(1), other).error().code, "contract_mismatch");
  EXPECT_EQ(html_report({file_of(1), other}).error().code, "contract_mismatch");
  other = file_of(1);
  other.runs = {run_of("c", 0, 1)};
  EXPECT_EQ(text_comparison(file_of(1), other).error().code, "nothing_in_common");
}

TEST(Report, AComparisonBeginsWithWhatElseIsNotTheSame) {
  const RunFile before = file_of(1);
  EXPECT_TRUE(text_comparison(before, file_of(2))->starts_with("a&b single")) << "nothing else differs";
  RunFile after = file_of(2);
  after.model = "other", after.context = 512, after.threads = 2;
  after.machine.processor = "P", after.machine.bandwidth_gb_s = 11.5;
  after.engines[0].version = "3", after.engines[1].command = "run --fast";
  EXPECT_TRUE(text_comparison(before, after)
                  ->starts_with("not the same in both, so a change may be due to that:\n"
                                "  model: <b>model</b>, then other\n"
                                "  context: 0, then 512\n"
                                "  threads: 0, then 2\n"
                                "  processor: not told, then P\n"
                                "  memory bandwidth in GB/s: 10.0, then 11.5\n"
                                "  a&b version: 1, then 3\n"
                                "  slow command: run, then run --fast\n"
                                "a&b single"))
      << *text_comparison(before, after);

  RunFile noisy = file_of(2);
  noisy.noise = {"why"};
  noisy.runs[0].noise = {"busy"};
  EXPECT_TRUE(text_comparison(before, noisy)
                  ->starts_with("the second run is noisy: why\na&b single (streams 1, processes 1; marked as noisy)\n"))
      << *text_comparison(before, noisy);
}

TEST(Report, WorkOfAnotherSizeIsNotCompared) {
  RunFile quick = file_of(1), longer = file_of(1);
  quick.quick = true;
  longer.max_tokens = 256;
  EXPECT_EQ(text_comparison(file_of(1), quick).error().code, "work_mismatch");
  EXPECT_EQ(text_comparison(longer, file_of(1)).error().code, "work_mismatch");
  EXPECT_TRUE(text_comparison(quick, quick)->starts_with("quick runs, for trying out"));
}

TEST(Plot, ScalesWhatItDraws) {
  const std::string svg = line_plot({"t", "x", "y", {{"s", {{1, 10}, {2, 20}}}, {"empty", {}}}});
  // 560 by 1.05 * 2 wide from 64, 240 by 1.1 * 20 high from 276.
  EXPECT_NE(svg.find("points='330.7,166.9 "), svg.npos) << svg;
  EXPECT_EQ(svg.find(">empty<"), svg.npos);
  EXPECT_EQ(line_plot({"t", "x", "y", {{"s", {}}}}), "");
  EXPECT_EQ(bar_plot({"t", "x", "y", {}}), "");
}

TEST(Plot, FiguresHaveThreeDigits) {
  const std::pair<double, const char*> cases[] = {{0, "0"},     {1234.5, "1234"},     {12.345, "12.3"},
                                                  {1.5, "1.5"}, {0.012345, "0.0123"}, {-2.346, "-2.35"},
                                                  {100, "100"}};
  for (const auto& [value, text] : cases) EXPECT_EQ(format_figure(value), text);
}

TEST(Recorder, TheFileIsWholeAfterEachRun) {
  const std::string folder = testing::TempDir() + "recorder";
  std::filesystem::create_directories(folder);
  Recorder recorder(file_of(1), folder);
  EXPECT_EQ(recorder.path(), folder + "/bench-20260101T000000Z.json");
  ASSERT_TRUE(recorder.add(run_of("slow", 1, 2)));
  const auto back = read_result(recorder.path());
  ASSERT_TRUE(back) << back.error().line();
  EXPECT_EQ(back->runs.size(), 4u);
  EXPECT_FALSE(std::filesystem::exists(recorder.path() + ".part"));
  EXPECT_EQ(read_results(folder)->size(), 1u);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(read_results(folder).error().code, "cannot_read");
  EXPECT_EQ(Recorder(file_of(1), folder).save().error().code, "cannot_write");
}

}  // namespace
}  // namespace martlet::bench
