#include "bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace martlet::bench {
namespace {

double percentile_of_sorted(std::span<const double> sorted, double p) {
  if (sorted.empty()) return 0;
  const double rank = p / 100 * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(std::floor(rank)), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (rank - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::vector<double> sorted_copy(std::span<const double> values) {
  std::vector<double> copy(values.begin(), values.end());
  std::sort(copy.begin(), copy.end());
  return copy;
}

double resampled_median(std::span<const double> values, std::mt19937_64& random, std::vector<double>& sample) {
  sample.clear();
  for (size_t i = 0; i < values.size(); ++i) sample.push_back(values[random() % values.size()]);
  std::sort(sample.begin(), sample.end());
  return percentile_of_sorted(sample, 50);
}

}  // namespace

double percentile(std::span<const double> values, double p) {
  return percentile_of_sorted(sorted_copy(values), p);
}

Summary summarize(std::span<const double> values) {
  const std::vector<double> sorted = sorted_copy(values);
  if (sorted.empty()) return {};
  const auto at = [&](double p) { return percentile_of_sorted(sorted, p); };
  Summary out{sorted.size(), at(50), at(90), at(99), sorted.front(), sorted.back(), 0};
  if (out.p50 != 0) out.spread = (at(75) - at(25)) / out.p50;
  return out;
}

Interval median_interval(std::span<const double> values) {
  const std::vector<double> sorted = sorted_copy(values);
  if (sorted.empty()) return {};
  const auto n = static_cast<double>(sorted.size());
  // Logarithms: 2^-n is no number for the n of a long run.
  const auto heads = [n](size_t k) {
    const auto of = static_cast<double>(k);
    return std::exp(std::lgamma(n + 1) - std::lgamma(of + 1) - std::lgamma(n - of + 1) - n * std::log(2.0));
  };
  size_t cut = 0;  // values that are left out at each end
  for (double below = heads(0); below + heads(cut + 1) <= 0.025; below += heads(cut)) ++cut;
  return {percentile_of_sorted(sorted, 50), sorted[cut], sorted[sorted.size() - 1 - cut]};
}

Change compare(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty() || median(a) == 0) return {};
  constexpr int kResamples = 2000;
  std::mt19937_64 random(1);
  std::vector<double> ratios, sample;
  for (int i = 0; i < kResamples; ++i) {
    const double of_a = resampled_median(a, random, sample), of_b = resampled_median(b, random, sample);
    if (of_a != 0) ratios.push_back(of_b / of_a);
  }
  std::sort(ratios.begin(), ratios.end());
  return {median(b) / median(a), percentile_of_sorted(ratios, 2.5), percentile_of_sorted(ratios, 97.5)};
}

}  // namespace martlet::bench
