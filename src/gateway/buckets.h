#pragma once

// Shapes that upstreams compile for are powers of two; so are the sizes in which the gateway thinks of requests.

#include <algorithm>
#include <cstdint>

namespace martlet::gateway {

inline constexpr int64_t kSmallestBucket = 512;
inline constexpr int64_t kLargestBucket = int64_t{1} << 20;

// The smallest of 512, 1024, 2048 ... that holds `tokens`, at most kLargestBucket.
inline int64_t bucket_of(int64_t tokens) {
  int64_t bucket = kSmallestBucket;
  while (bucket < tokens && bucket < kLargestBucket) bucket *= 2;
  return bucket;
}

// How many tokens a text of some bytes is, for an upstream that never says before it answers: learnt from its answers.
class TokenEstimate {
 public:
  int64_t tokens(int64_t bytes) const {
    return static_cast<int64_t>(static_cast<double>(bytes) / bytes_per_token_) + 1;
  }
  // An answer counted `tokens` for `bytes` of prompt text.
  void learn(int64_t bytes, int64_t tokens) {
    if (bytes < 64 || tokens < 8) return;  // mostly template
    const double seen = std::clamp(static_cast<double>(bytes) / static_cast<double>(tokens), 0.5, 16.0);
    bytes_per_token_ += (seen - bytes_per_token_) / 8;
  }

 private:
  double bytes_per_token_ = 4;
};

}  // namespace martlet::gateway
