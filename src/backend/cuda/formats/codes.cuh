#pragma once

// How a storage format lies on the device. Every quantized format becomes the same thing: unsigned codes of `kBits`
// bits and, for each group of 16 or 32 values, a scale and for some formats a minimum as halves. Codes are cut into
// planes, one for each binary digit of kBits (6 bits: a plane of nibbles and a plane of pairs), so that every plane is
// read with whole words. A format says how one block of the file is read; kernels/unpack.cuh turns planes into halves.
//
// A tile is 16 rows x 64 columns. Lane 4g + t of a warp holds columns 16t .. 16t + 15 of rows g and g + 8: that is what
// mma.m16n8k16 wants of its first operand when the columns of both operands are permuted alike. Inside a lane, column
// 2p + e of a row is half e of pair p.
//
// Bits of a code n that end up low in a half are, as a half, n * 2^-24 exactly (a subnormal): multiplied by a scale
// that is stored 2^24 times as large, they need no conversion. Codes of even pairs come to lie from bit 0 on, those of
// odd pairs from bit 4 on, so that one shift serves two pairs; scales of the latter are divided by 16.

#include <cuda_fp16.h>

#include <cstdint>

#include "tensor/blocks.h"

namespace martlet::cuda {

inline constexpr int kTileRows = 16, kTileColumns = 64;

// What a code stands for: itself, or an entry of a table, less kOffset; or a float of four bits.
enum class Levels { linear, iq4, e2m1 };

// Where a lane's codes lie in the halves of its words, after which few shifts bring them to their places.
__host__ __device__ constexpr int place_of_nibble(int p) {
  return 4 * (p % 4);
}
__host__ __device__ constexpr int place_of_pair(int p) {
  return p % 2 == 0 ? p : p + 7;
}
__host__ __device__ constexpr int place_of_bit(int p) {
  return p % 2 == 0 ? p / 2 : 4 + p / 2;
}

// Base of the formats: what most of them have.
struct Codes {
  static constexpr Levels kLevels = Levels::linear;
  static constexpr bool kMinimum = false;
  static constexpr int kGroup = 32;
  static constexpr int kOffset = 0;
  static constexpr int kScaleExponent = 24;  // scales are stored 2^this times as large
};

__device__ inline float half_bits(uint16_t bits) {
  return __half2float(__ushort_as_half(bits));
}

// Code of element i of a block of 32 whose byte b holds elements b and b + 16.
__device__ inline int split_nibble(const uint8_t* codes, int i) {
  return i < 16 ? codes[i] & 15 : codes[i - 16] >> 4;
}

}  // namespace martlet::cuda
