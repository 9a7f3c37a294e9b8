#pragma once

// How many drafted tokens an upstream accepted when it does not say: by when the tokens of a stream arrived. The tokens
// of one verification come together, and the next ones a step later.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gateway/time.h"

namespace martlet::gateway {

class DraftEstimate {
 public:
  struct Counts {
    int64_t drafted = 0, accepted = 0;
  };

  // A token of the stream came.
  void arrived(Time now) {
    if (tokens_ == 0) first_ = now;
    if (tokens_++ > 0 && gaps_.size() < kMost) gaps_.push_back(now - last_);
    last_ = now;
  }
  // 0 for fewer than 16 tokens.
  double tokens_per_second() const {
    if (gaps_.size() < kLeast || last_ == first_) return 0;
    return static_cast<double>(tokens_ - 1) / std::chrono::duration<double>(last_ - first_).count();
  }
  // Each step is taken to draft `length` tokens and to yield one more than it accepted. Nothing for fewer than 16
  // tokens.
  Counts counts(int64_t length) const {
    if (gaps_.size() < kLeast) return {};
    std::vector<Duration> sorted = gaps_;
    std::sort(sorted.begin(), sorted.end());
    // Even when every draft is accepted, one gap in length + 1 is that of a step.
    const Duration step = sorted[sorted.size() * 9 / 10];
    const auto steps = std::count_if(gaps_.begin(), gaps_.end(), [&](Duration gap) { return gap > step / 4; });
    const auto accepted = static_cast<int64_t>(gaps_.size()) - steps;
    return {steps * length, std::min<int64_t>(accepted, steps * length)};
  }

 private:
  static constexpr size_t kLeast = 15, kMost = 512;
  std::vector<Duration> gaps_;
  int64_t tokens_ = 0;
  Time first_{}, last_{};
};

// Whether drafts pay at all, from the rates of streams with and without them. Estimates are rough: a rate is not.
class PairedRates {
 public:
  void saw(bool drafted, double tokens_per_second) {
    double& mean = drafted ? with_ : without_;
    mean = mean == 0 ? tokens_per_second : mean + (tokens_per_second - mean) / 4;
  }
  // True when both are known and drafts are slower; the next trial of them is measured anew.
  bool found_slower() {
    if (with_ == 0 || without_ == 0 || with_ >= without_) return false;
    with_ = 0;
    return true;
  }

 private:
  double with_ = 0, without_ = 0;
};

}  // namespace martlet::gateway
