#include "bench/statistics.h"

#include <gtest/gtest.h>

#include "bench/measurement.h"

namespace martlet::bench {
namespace {

TEST(Statistics, PercentilesLieBetweenRanks) {
  const std::vector<double> values = {40, 10, 30, 20};  // sorted: 10 20 30 40
  EXPECT_DOUBLE_EQ(percentile(values, 0), 10);
  EXPECT_DOUBLE_EQ(percentile(values, 50), 25);
  EXPECT_DOUBLE_EQ(percentile(values, 90), 37);  // rank 2.7
  EXPECT_DOUBLE_EQ(percentile(values, 100), 40);
  EXPECT_DOUBLE_EQ(percentile({}, 50), 0);
}

TEST(Statistics, SummaryOfFiveValues) {
  const Summary s = summarize(std::vector<double>{5, 1, 4, 2, 3});
  EXPECT_EQ(s.count, 5u);
  EXPECT_DOUBLE_EQ(s.p50, 3);
  EXPECT_DOUBLE_EQ(s.p90, 4.6);
  EXPECT_DOUBLE_EQ(s.p99, 4.96);
  EXPECT_DOUBLE_EQ(s.minimum, 1);
  EXPECT_DOUBLE_EQ(s.maximum, 5);
  EXPECT_DOUBLE_EQ(s.spread, 2.0 / 3);  // (4 - 2) / 3
  EXPECT_EQ(summarize({}).count, 0u);
}

TEST(Statistics, AChangeIsCertainOnlyWhenItsIntervalLeavesOne) {
  const std::vector<double> a = {10, 11, 9, 10, 10, 11, 9, 10}, b = {20, 22, 18, 20, 20, 22, 18, 20};
  const Change doubled = compare(a, b), none = compare(a, a);
  EXPECT_DOUBLE_EQ(doubled.ratio, 2);
  EXPECT_TRUE(doubled.certain());
  EXPECT_LE(doubled.low, 2);
  EXPECT_GE(doubled.high, 2);
  EXPECT_DOUBLE_EQ(none.ratio, 1);
  EXPECT_FALSE(none.certain());
  EXPECT_FALSE(compare({}, b).certain());
}

// Offered at `start`, sent 100 ms later, first token after 50 ms, last of five after 100 ms more.
Measurement sample(double start) {
  Measurement m;
  m.offered = start;
  m.sent = start + 0.1;
  m.first_token = start + 0.15;
  m.last_token = start + 0.25;
  m.output_tokens = 5;
  return m;
}

TEST(Measurement, FiguresFollowTheirDefinitions) {
  Measurement m = sample(0);
  EXPECT_DOUBLE_EQ(ttft(m), 0.05);
  EXPECT_DOUBLE_EQ(queued_ttft(m), 0.15);
  EXPECT_DOUBLE_EQ(tpot(m), 0.1 / 4);
  EXPECT_DOUBLE_EQ(effective_rate(m), 5 / 0.15);
  m.output_tokens = 1;
  EXPECT_EQ(tpot(m), 0);
}

TEST(Measurement, AggregateCountsTheWallTimeOnce) {
  Measurement failed = sample(5);
  failed.error = "refused";
  const std::vector<Measurement> all = {sample(0), sample(0.25), failed};
  EXPECT_DOUBLE_EQ(aggregate_rate(all), 10 / 0.5);
  EXPECT_EQ(aggregate_rate({failed}), 0);
  const Figures f = figures(all);
  EXPECT_EQ(f.failed, 1);
  EXPECT_EQ(f.ttft.count, 2u);
  EXPECT_NEAR(f.ttft.p50, 0.05, 1e-12);
}

}  // namespace
}  // namespace martlet::bench
