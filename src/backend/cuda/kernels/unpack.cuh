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

// Where the parts of a record lie, in bytes: nibbles (or bytes of 8-bit codes), then these.
template <class F>
struct Record {
  static constexpr int kPairs = F::kBits >= 8 ? 128 * F::kBits : kHasNibbles<F> ? 512 : 0;
  static constexpr int kSingles = kPairs + (kHasPairs<F> ? 256 : 0);
  static constexpr int kScales = kSingles + (kHasBits<F> ? 128 : 0);
  static constexpr int kBytes = kScales + (F::kBits == 16 ? 0 : kTileGroups<F> * 8 * kScaleBytes<F>);
};

template <class F>
struct LaneTile {
  uint4 wide[F::kBits == 16 ? 4 : F::kBits == 8 ? 2 : 1];  // nibbles of both rows; bytes or halves of row g, then g + 8
  uint2 pairs;                                             // of row g, of row g + 8
  uint32_t bits;                                           // 16 of row g, then of row g + 8, in halves of bytes
  uint2 scales;                                            // halves: scale of row g, of g + 8, minimums of both
};

// Where a segment's tile and step begin: a record, or the first of sixteen rows of halves.
template <class F>
__device__ inline const std::byte* place_of(const DeviceSegment& segment, int tile, int step) {
  constexpr int kStep = F::kBits == 16 ? kTileColumns * 2 : Record<F>::kBytes;
  return segment.data + (int64_t{tile} * segment.steps * (F::kBits == 16 ? kTileRows : 1) + step) * kStep;
}

// Weights are read once: they shall not push anything out of the caches. `steps`: of the segment.
template <class F>
__device__ inline LaneTile<F> load_tile(const std::byte* from, int steps, int lane) {
  const int t = lane % 4, g = lane / 4;
  const auto at = [&]<class T>(int64_t offset, int i, T) {
    return __ldcs(reinterpret_cast<const T*>(from + offset) + i);
  };
  LaneTile<F> out = {};
  if constexpr (F::kBits == 16) {
    const int64_t row_bytes = int64_t{steps} * (kTileColumns * 2);
#pragma unroll
    for (int i = 0; i < 4; ++i) out.wide[i] = at((g + i / 2 * 8) * row_bytes, 2 * t + i % 2, uint4());
  } else {
    if constexpr (F::kBits == 8 || kHasNibbles<F>) out.wide[0] = at(0, lane, uint4());
    if constexpr (F::kBits == 8) out.wide[1] = at(512, lane, uint4());
    if constexpr (kHasPairs<F>) out.pairs = at(Record<F>::kPairs, lane, uint2());
    if constexpr (kHasBits<F>) out.bits = at(Record<F>::kSingles, lane, uint32_t());
    const int group = t * 16 / F::kGroup * 8 + g;
    if constexpr (F::kMinimum) {
      out.scales = at(Record<F>::kScales, group, uint2());
    } else {
      out.scales.x = at(Record<F>::kScales, group, uint32_t());
    }
  }
  return out;
}

__device__ inline __half2 as_halves(uint32_t bits) {
  return *reinterpret_cast<__half2*>(&bits);
}
__device__ inline uint32_t as_bits(__half2 halves) {
  return *reinterpret_cast<uint32_t*>(&halves);
}

__device__ inline uint32_t shifted(uint32_t word, int right) {
  return right >= 0 ? word >> right : word << -right;
}

// Pair p of a row of codes of less than eight bits: from bit 0 of each half on where p is even, else from bit 4 on.
template <class F>
__device__ inline uint32_t code_pair(const LaneTile<F>& tile, int row, int p) {
  const int up = p % 2 * 4;
  uint32_t code = 0, known = 0;
  if constexpr (kHasNibbles<F>) {
    const uint4& n = tile.wide[0];
    const uint32_t word = row == 0 ? (p < 4 ? n.x : n.y) : (p < 4 ? n.z : n.w);
    code = shifted(word, place_of_nibble(p) - up);
    known = 0x000f000fu << up;
  }
  if constexpr (kHasPairs<F>) {
    const int to = (kHasNibbles<F> ? 4 : 0) + up;
    const uint32_t two = shifted(row == 0 ? tile.pairs.x : tile.pairs.y, place_of_pair(p) - to);
    code = (code & known) | (two & ~known);
    known |= 0x00030003u << to;
  }
  if constexpr (kHasBits<F>) {
    const int to = F::kBits - 1 + up;
    const uint32_t one = shifted(tile.bits, place_of_bit(p) + 8 * row - to);
    code = (code & known) | (one & ~known);
    known |= 0x00010001u << to;
  }
  return code & known;
}

// Levels of four codes in the low halves of `selector`'s bytes 0 .. 1, plus 128 each.
__device__ inline uint32_t iq4_levels(uint32_t selector) {
  // -127 -104 -83 -65 | -49 -35 -22 -10 | 1 13 25 38 | 53 69 89 113
  const uint32_t low = __byte_perm(0x3f2d1801, 0x766a5d4f, selector & 0x7777);
  const uint32_t high = __byte_perm(0xa6998d81, 0xf1d9c5b5, selector & 0x7777);
  return __byte_perm(low, high, 0x3210 + ((selector & 0x8888) >> 1));
}

// Eight pairs of one of the lane's rows (0: row g, 1: row g + 8), as halves that are to be multiplied by the scale.
template <class F>
__device__ inline void code_row(const LaneTile<F>& tile, int row, uint32_t* out) {
  if constexpr (F::kLevels == Levels::iq4) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint4& n = tile.wide[0];
      const uint32_t word = row == 0 ? (h == 0 ? n.x : n.y) : (h == 0 ? n.z : n.w);
      const uint32_t even = iq4_levels(word), odd = iq4_levels(word >> 16);
#pragma unroll
      for (int p = 0; p < 4; ++p) out[4 * h + p] = __byte_perm(even, odd, p | (4 + p) << 8) & 0x00ff00ff;
    }
  } else if constexpr (F::kBits == 8) {
    const uint32_t words[4] = {tile.wide[row].x, tile.wide[row].y, tile.wide[row].z, tile.wide[row].w};
#pragma unroll
    for (int p = 0; p < 8; ++p) out[p] = __byte_perm(words[p / 2], 0, p % 2 == 0 ? 0x4140 : 0x4342);
  } else {
#pragma unroll
    for (int p = 0; p < 8; ++p) {
      out[p] = code_pair(tile, row, p);
      if constexpr (F::kLevels == Levels::e2m1) {
        const int up = p % 2 * 4;
        out[p] = (out[p] & 0x00080008u << up) << (12 - up) | (out[p] & 0x00070007u << up) << (9 - up);
      }
    }
  }
}

template <class F>
__device__ inline void unpack_row(const LaneTile<F>& tile, int row, uint32_t* out) {
  constexpr bool kOddHigher = F::kBits < 8 && F::kLevels == Levels::linear;
  const __half2 both = as_halves(tile.scales.x);
  const __half2 scale = row == 0 ? __low2half2(both) : __high2half2(both);
  const __half2 odd_scale = kOddHigher ? __hmul2(scale, as_halves(0x2c002c00)) : scale;  // 1/16
  __half2 added;
  if constexpr (F::kMinimum) {
    const __half2 minimums = as_halves(tile.scales.y);
    added = row == 0 ? __low2half2(minimums) : __high2half2(minimums);
  } else {
    added = __hmul2(scale, as_halves(0x80008000u | F::kOffset << 16 | F::kOffset));  // -kOffset * 2^-24
  }
  code_row(tile, row, out);
#pragma unroll
  for (int p = 0; p < 8; ++p) {
    const __half2 code = as_halves(out[p]), by = p % 2 == 0 ? scale : odd_scale;
    out[p] = as_bits(F::kMinimum || F::kOffset != 0 ? __hfma2(code, by, added) : __hmul2(code, by));
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
