#include "bench/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace martlet::bench {
namespace {

// The values 1 .. n, out of order: each is its own rank.
std::vector<double> ranks(int n) {
  std::vector<double> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), 1);
  std::shuffle(values.begin(), values.end(), std::mt19937(1));
  return values;
}

void expect_interval(int n, double low, double middle, double high) {
  const Interval interval = median_interval(ranks(n));
  EXPECT_EQ(interval.low, low) << n;
  EXPECT_EQ(interval.middle, middle) << n;
  EXPECT_EQ(interval.high, high) << n;
}

// Of n draws so many fall below the median as of n coins show heads. Of 9 coins fewer than 2 do in 10 of 512 cases, so
// the second from below and from above hold it between them in 1 - 20 / 512, 96 %; of 12 fewer than 3 in 79 of 4096,
// 96 %; of 30 fewer than 10 in 2.1 %, 96 %. Where there are too few values for 95 %, they are all there is.
TEST(MedianInterval, HoldsTheMedianBetweenRanksThatLieAlikeFromBothEnds) {
  expect_interval(1, 1, 1, 1);
  expect_interval(2, 1, 1.5, 2);
  expect_interval(3, 1, 2, 3);
  expect_interval(9, 2, 5, 8);
  expect_interval(12, 3, 6.5, 10);
  expect_interval(30, 10, 15.5, 21);
}

TEST(MedianInterval, OfNothingIsNothing) {
  const Interval interval = median_interval({});
  EXPECT_EQ(interval.middle, 0);
  EXPECT_EQ(interval.low, 0);
  EXPECT_EQ(interval.high, 0);
}

}  // namespace
}  // namespace martlet::bench
