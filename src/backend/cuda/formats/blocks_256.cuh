#pragma once

// Formats whose blocks hold 256 elements in groups with small scales of their own.

#include "backend/cuda/formats/codes.cuh"

namespace martlet::cuda {

struct Q2_K : Codes {
  using Block = BlockQ2_K;
  static constexpr int kBits = 2, kGroup = 16;
  static constexpr bool kMinimum = true;
  static __device__ int code(const Block& b, int i) { return b.codes[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3; }
  static __device__ float scale(const Block& b, int g) { return half_bits(b.scale) * (b.scales[g] & 15); }
  static __device__ float minimum(const Block& b, int g) { return -half_bits(b.minimum) * (b.scales[g] >> 4); }
};

struct Q3_K : Codes {
  using Block = BlockQ3_K;
  static constexpr int kBits = 3, kGroup = 16, kOffset = 4;
  static __device__ int code(const Block& b, int i) {
    return (b.codes[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3) | (b.high[i % 32] >> i / 32 & 1) << 2;
  }
  static __device__ float scale(const Block& b, int g) {
    const int low = g < 8 ? b.scales[g] & 15 : b.scales[g - 8] >> 4;
    const int high = b.scales[8 + g % 4] >> g / 4 * 2 & 3;
    return half_bits(b.scale) * ((low | high << 4) - 32);
  }
};

struct Q4_K : Codes {
  using Block = BlockQ4_K;
  static constexpr int kBits = 4;
  static constexpr bool kMinimum = true;
  static __device__ int code(const Block& b, int i) { return b.codes[i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15; }
  static __device__ float scale(const Block& b, int g) { return half_bits(b.scale) * group_scales(b.scales, g).scale; }
  static __device__ float minimum(const Block& b, int g) {
    return -half_bits(b.minimum) * group_scales(b.scales, g).minimum;
  }
};

struct Q5_K : Codes {
  using Block = BlockQ5_K;
  static constexpr int kBits = 5;
  static constexpr bool kMinimum = true;
  static __device__ int code(const Block& b, int i) {
    return (b.codes[i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15) | (b.high[i % 32] >> i / 32 & 1) << 4;
  }
  static __device__ float scale(const Block& b, int g) { return half_bits(b.scale) * group_scales(b.scales, g).scale; }
  static __device__ float minimum(const Block& b, int g) {
    return -half_bits(b.minimum) * group_scales(b.scales, g).minimum;
  }
};

struct Q6_K : Codes {
  using Block = BlockQ6_K;
  static constexpr int kBits = 6, kGroup = 16, kOffset = 32;
  static __device__ int code(const Block& b, int i) {
    const int low = b.low[i / 128 * 64 + i % 64] >> i % 128 / 64 * 4 & 15;
    return low | (b.high[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3) << 4;
  }
  static __device__ float scale(const Block& b, int g) { return half_bits(b.scale) * b.scales[g]; }
};

struct IQ4_XS : Codes {
  using Block = BlockIQ4_XS;
  static constexpr int kBits = 4, kOffset = 128;
  static constexpr Levels kLevels = Levels::iq4;
  static __device__ int code(const Block& b, int i) { return split_nibble(b.codes + i / 32 * 16, i % 32); }
  static __device__ float scale(const Block& b, int g) {
    const int low = b.scales_low[g / 2] >> g % 2 * 4 & 15, high = b.scales_high >> 2 * g & 3;
    return half_bits(b.scale) * ((low | high << 4) - 32);
  }
};

}  // namespace martlet::cuda
