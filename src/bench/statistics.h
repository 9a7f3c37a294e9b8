#pragma once

// The statistics of the benchmark, small enough to check by hand.

#include <cstdint>
#include <span>
#include <vector>

namespace martlet::bench {

// The p-th percentile, 0 <= p <= 100, between the two nearest ranks (linear, "type 7" of Hyndman & Fan 1996, as numpy
// and spreadsheets have it). 0 for no values.
double percentile(std::span<const double> values, double p);
inline double median(std::span<const double> values) {
  return percentile(values, 50);
}

struct Summary {
  size_t count = 0;
  double p50 = 0, p90 = 0, p99 = 0;
  double minimum = 0, maximum = 0;
  double spread = 0;  // interquartile range over the median: how far a repeat may lie from this run
};
Summary summarize(std::span<const double> values);

// The median, and the narrowest pair of values, as far from either end, between which the true median lies with a
// probability of at least 95 % (sign test: of n values, as many lie below it as of n coins show heads). Below six
// values there is no such pair: the interval is from the least to the greatest. Zeros for no values.
struct Interval {
  double middle = 0, low = 0, high = 0;
};
Interval median_interval(std::span<const double> values);

// How B compares with A: the ratio of their medians, and the interval that holds it with 95 % confidence, from 2,000
// resamplings of both with a fixed seed (percentile bootstrap, Efron 1979). Zeros when either is empty.
struct Change {
  double ratio = 0, low = 0, high = 0;
  bool certain() const { return ratio > 0 && (low > 1 || high < 1); }  // "no change" lies outside
};
Change compare(std::span<const double> a, std::span<const double> b);

}  // namespace martlet::bench
