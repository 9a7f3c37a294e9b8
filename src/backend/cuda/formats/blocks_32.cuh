#pragma once

// Formats whose blocks hold 32 elements.

#include "backend/cuda/formats/codes.cuh"

namespace martlet::cuda {

struct Q4_0 : Codes {
  using Block = BlockQ4_0;
  static constexpr int kBits = 4, kOffset = 8;
  static __device__ int code(const Block& b, int i) { return split_nibble(b.codes, i); }
  static __device__ float scale(const Block& b, int) { return half_bits(b.scale); }
};

struct Q4_1 : Codes {
  using Block = BlockQ4_1;
  static constexpr int kBits = 4;
  static constexpr bool kMinimum = true;
  static __device__ int code(const Block& b, int i) { return split_nibble(b.codes, i); }
  static __device__ float scale(const Block& b, int) { return half_bits(b.scale); }
  static __device__ float minimum(const Block& b, int) { return half_bits(b.minimum); }
};

struct Q5_0 : Codes {
  using Block = BlockQ5_0;
  static constexpr int kBits = 5, kOffset = 16;
  static __device__ int code(const Block& b, int i) {
    return split_nibble(b.codes, i) | (b.high[i / 8] >> (i % 8) & 1) << 4;
  }
  static __device__ float scale(const Block& b, int) { return half_bits(b.scale); }
};

struct Q5_1 : Codes {
  using Block = BlockQ5_1;
  static constexpr int kBits = 5;
  static constexpr bool kMinimum = true;
  static __device__ int code(const Block& b, int i) {
    return split_nibble(b.codes, i) | (b.high[i / 8] >> (i % 8) & 1) << 4;
  }
  static __device__ float scale(const Block& b, int) { return half_bits(b.scale); }
  static __device__ float minimum(const Block& b, int) { return half_bits(b.minimum); }
};

struct Q8_0 : Codes {
  using Block = BlockQ8_0;
  static constexpr int kBits = 8, kOffset = 128;
  static __device__ int code(const Block& b, int i) { return b.codes[i] + 128; }
  static __device__ float scale(const Block& b, int) { return half_bits(b.scale); }
};

struct IQ4_NL : Codes {
  using Block = BlockIQ4_NL;
  static constexpr int kBits = 4, kOffset = 128;
  static constexpr Levels kLevels = Levels::iq4;
  static __device__ int code(const Block& b, int i) { return split_nibble(b.codes, i); }
  static __device__ float scale(const Block& b, int) { return half_bits(b.scale); }
};

struct MXFP4 : Codes {
  using Block = BlockMXFP4;
  static constexpr int kBits = 4;
  static constexpr Levels kLevels = Levels::e2m1;
  static constexpr int kScaleExponent = 14;  // sign, exponent and mantissa at their places in a half
  static __device__ int code(const Block& b, int i) { return split_nibble(b.codes, i); }
  static __device__ float scale(const Block& b, int) { return exp2f(static_cast<float>(b.exponent) - 127); }
};

}  // namespace martlet::cuda
