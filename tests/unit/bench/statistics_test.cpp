#include "bench/statistics.h"

#include <gtest/gtest.h>

#include <tuple>

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

TEST(Statistics, TheIntervalIsTheMiddleOfAllResamples) {
  const auto at = [](const std::vector<double>& a, const std::vector<double>& b) {
    const Change c = compare(a, b);
    return std::vector<double>{c.ratio, c.low, c.high};
  };
  EXPECT_EQ(at({2}, {3}), (std::vector<double>{1.5, 1.5, 1.5})) << "nothing to choose";
  // Of two, medians are 1, 2, 3 with chances of 1/4, 1/2, 1/4: the least and the largest are both within 95 %.
  EXPECT_EQ(at({1, 1}, {1, 3}), (std::vector<double>{2, 1, 3}));
  // On both sides: the least of b over the largest of a in one of 16.
  EXPECT_EQ(at({1, 3}, {3, 9}), (std::vector<double>{3, 1, 9}));
  // Of seven, four or more of the same must be drawn: a median of 1 has a chance of 1.0 %, of 2 or less 10.8 %;
  // likewise from above.
  EXPECT_EQ(at({1}, {7, 6, 5, 4, 3, 2, 1}), (std::vector<double>{4, 2, 6}));
}

TEST(Statistics, TheMedianLiesBetweenValuesAsTheSignTestHasIt) {
  // Ranks for 95 %, as tables of the sign test have them: 1 and 6 of 6, 2 and 9 of 10, 6 and 15 of 20, 10 and 21 of 30.
  for (const auto& [n, low, high] : {std::tuple{1, 1, 1}, std::tuple{5, 1, 5}, std::tuple{6, 1, 6}, std::tuple{9, 2, 8},
                                     std::tuple{10, 2, 9}, std::tuple{20, 6, 15}, std::tuple{30, 10, 21}}) {
    std::vector<double> values;
    for (int i = n; i > 0; --i) values.push_back(i);
    const Interval interval = median_interval(values);
    EXPECT_EQ(interval.low, low) << n;
    EXPECT_EQ(interval.high, high) << n;
    EXPECT_EQ(interval.middle, (n + 1) / 2.0) << n;
  }
  std::vector<double> many(3001);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<double>(i);
  const Interval interval = median_interval(many);  // half of it 1.96 * sqrt(3001) / 2
  EXPECT_NEAR(interval.low, 1500 - 53.7, 1);
  EXPECT_NEAR(interval.high, 1500 + 53.7, 1);
  EXPECT_EQ(median_interval({}).high, 0);
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
