#pragma once

// A lane's part of a tile: loaded with whole words, turned into the halves of mma's first operand.

#include "backend/cuda/formats/blocks_256.cuh"
#include "backend/cuda/formats/blocks_32.cuh"
#include "backend/cuda/kernels/segment.h"

namespace martlet::cuda {

// Plain halves, row after row: the layout that matrix products of the library want too.
struct Halves {
  static constexpr int kBits = 16, kGroup = 32, kOffset = 0;
  static constexpr bool kMinimum = false;
  static constexpr Levels kLevels = Levels::linear;
};

template <class F>
inline constexpr bool kHasNibbles = F::kBits < 8 && (F::kBits & 4) != 0;
template <class F>
inline constexpr bool kHasPairs = F::kBits < 8 && (F::kBits & 2) != 0;
template <class F>
inline constexpr bool kHasBits = F::kBits < 8 && (F::kBits & 1) != 0;
// Groups of a row of a tile, and bytes of scales that a lane reads for its two rows.
template <class F>
inline constexpr int kTileGroups = kTileColumns / F::kGroup;
template <class F>
inline constexpr int kScaleBytes = F::kMinimum ? 8 : 4;

template <class F>
struct LaneTile {
  uint4 wide[F::kBits == 16 ? 4 : F::kBits == 8 ? 2 : 1];  // nibbles of both rows; bytes or halves of row g, then g + 8
  uint2 pairs;                                             // of row g, of row g + 8
  uint32_t bits;                                           // 16 of row g, then of row g + 8, in halves of bytes
  uint2 scales;                                            // halves: scale of row g, of g + 8, minimums of both
};

// Weights are read once: they shall not push anything out of the caches.
__device__ inline uint4 stream_load(const uint4* from) {
  return __ldcs(from);
}
__device__ inline uint2 stream_load(const uint2* from) {
  return __ldcs(from);
}
__device__ inline uint32_t stream_load(const uint32_t* from) {
  return __ldcs(from);
}

template <class F>
__device__ inline LaneTile<F> load_tile(const DeviceSegment& segment, int tile, int step, int lane) {
  LaneTile<F> out;
  const int t = lane % 4, g = lane / 4;
  const int64_t at = int64_t{tile} * segment.steps + step;
  if constexpr (F::kBits == 16) {
    const int64_t stride = int64_t{segment.steps} * 8;  // of a row, in words of 16 bytes
    const uint4* row = static_cast<const uint4*>(segment.nibbles) + (int64_t{tile} * kTileRows + g) * stride +
                       int64_t{step} * 8 + t * 2;
    out.wide[0] = stream_load(row);
    out.wide[1] = stream_load(row + 1);
    out.wide[2] = stream_load(row + 8 * stride);
    out.wide[3] = stream_load(row + 8 * stride + 1);
    return out;
  }
  if constexpr (F::kBits == 8) {
    const uint4* from = static_cast<const uint4*>(segment.nibbles) + at * 64 + lane;
    out.wide[0] = stream_load(from);
    out.wide[1] = stream_load(from + 32);
  }
  if constexpr (kHasNibbles<F>) out.wide[0] = stream_load(static_cast<const uint4*>(segment.nibbles) + at * 32 + lane);
  if constexpr (kHasPairs<F>) out.pairs = stream_load(static_cast<const uint2*>(segment.pairs) + at * 32 + lane);
  if constexpr (kHasBits<F>) out.bits = stream_load(static_cast<const uint32_t*>(segment.bits) + at * 32 + lane);
  const int64_t scale = (at * kTileGroups<F> + t * 16 / F::kGroup) * 8 + g;
  if constexpr (F::kMinimum) {
    out.scales = stream_load(static_cast<const uint2*>(segment.scales) + scale);
  } else {
    out.scales.x = stream_load(static_cast<const uint32_t*>(segment.scales) + scale);
  }
  return out;
}

__device__ inline __half2 as_halves(uint32_t bits) {
  return *reinterpret_cast<__half2*>(&bits);
}
__device__ inline uint32_t as_bits(__half2 halves) {
  return *reinterpret_cast<uint32_t*>(&halves);
}

// A small unsigned integer n in the low bits of a half with this exponent is 1024 + n.
inline constexpr uint32_t kHalf1024 = 0x64006400;

// Pair p of a row: codes as exact integers (less the offset) or levels, before their scale.
template <class F>
__device__ inline __half2 pair_of_codes(const LaneTile<F>& tile, int row, int p) {
  uint32_t code = 0;
  if constexpr (F::kBits == 8) {
    const uint32_t words[4] = {tile.wide[row].x, tile.wide[row].y, tile.wide[row].z, tile.wide[row].w};
    code = __byte_perm(words[p / 2], kHalf1024, p % 2 == 0 ? 0x5150 : 0x5352);
    return __hsub2(as_halves(code), __float2half2_rn(1024.0f + F::kOffset));
  }
  if constexpr (kHasNibbles<F>) {
    const uint4& n = tile.wide[0];
    const uint32_t word = row == 0 ? (p < 4 ? n.x : n.y) : (p < 4 ? n.z : n.w);
    code = word >> 4 * (p % 4) & 0x000f000f;
  }
  if constexpr (kHasPairs<F>) {
    const uint32_t two = (row == 0 ? tile.pairs.x : tile.pairs.y) >> 2 * p & 0x00030003;
    code |= kHasNibbles<F> ? two << 4 : two;
  }
  if constexpr (kHasBits<F>) {
    const uint32_t one = tile.bits >> (8 * row + p) & 0x00010001;
    code |= one << (F::kBits - 1 == 4 ? 4 : 2);
  }
  if constexpr (F::kLevels == Levels::e2m1) {
    // Sign, two bits of exponent and one of mantissa at their places in a half: the value times 2^-14.
    const uint32_t half = (code & 0x00080008) << 12 | (code & 0x00070007) << 9;
    return __hmul2(as_halves(half), __float2half2_rn(16384.0f));
  }
  return __hsub2(as_halves(code | kHalf1024), __float2half2_rn(1024.0f + F::kOffset));
}

// Levels of four codes in the low halves of `selector`'s bytes 0 .. 1, plus 128 each.
__device__ inline uint32_t iq4_levels(uint32_t selector) {
  // -127 -104 -83 -65 | -49 -35 -22 -10 | 1 13 25 38 | 53 69 89 113
  const uint32_t low = __byte_perm(0x3f2d1801, 0x766a5d4f, selector & 0x7777);
  const uint32_t high = __byte_perm(0xa6998d81, 0xf1d9c5b5, selector & 0x7777);
  return __byte_perm(low, high, 0x3210 + ((selector & 0x8888) >> 1));
}

// Eight pairs of one of the lane's rows (0: row g, 1: row g + 8).
template <class F>
__device__ inline void unpack_row(const LaneTile<F>& tile, int row, uint32_t* out) {
  const __half2 both = as_halves(tile.scales.x), minimums = as_halves(tile.scales.y);
  const __half2 scale = row == 0 ? __low2half2(both) : __high2half2(both);
  [[maybe_unused]] const __half2 minimum = row == 0 ? __low2half2(minimums) : __high2half2(minimums);
  if constexpr (F::kLevels == Levels::iq4) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint4& n = tile.wide[0];
      const uint32_t word = row == 0 ? (h == 0 ? n.x : n.y) : (h == 0 ? n.z : n.w);
      const uint32_t even = iq4_levels(word), odd = iq4_levels(word >> 16);
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        const uint32_t pair = __byte_perm(even, odd, p | (4 + p) << 8) & 0x00ff00ff;
        const __half2 level = __hsub2(as_halves(pair | kHalf1024), __float2half2_rn(1024.0f + 128.0f));
        out[4 * h + p] = as_bits(__hmul2(level, scale));
      }
    }
  } else {
#pragma unroll
    for (int p = 0; p < 8; ++p) {
      const __half2 code = pair_of_codes(tile, row, p);
      if constexpr (F::kMinimum) {
        out[p] = as_bits(__hfma2(code, scale, minimum));
      } else {
        out[p] = as_bits(__hmul2(code, scale));
      }
    }
  }
}

// The lane's sixteen halves of rows g (0-7) and g + 8 (8-15), pair after pair.
template <class F>
__device__ inline void unpack(const LaneTile<F>& tile, uint32_t (&out)[16]) {
  if constexpr (F::kBits == 16) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out[4 * i] = tile.wide[i].x;
      out[4 * i + 1] = tile.wide[i].y;
      out[4 * i + 2] = tile.wide[i].z;
      out[4 * i + 3] = tile.wide[i].w;
    }
  } else {
    unpack_row(tile, 0, out);
    unpack_row(tile, 1, out + 8);
  }
}

// c += a * b: a 16 x 16 (row g, then g + 8; columns 0-7, then 8-15), b 16 x 8, in halves; c in f32.
__device__ inline void multiply_add(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                    uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

}  // namespace martlet::cuda
