#pragma once

// How a storage format lies on the device. Every quantized format becomes the same thing: unsigned codes of `kBits`
// bits and, for each group of 16 or 32 values, a scale and for some formats a minimum as halves. Codes are cut into
// planes, one for each binary digit of kBits (6 bits: a plane of nibbles and a plane of pairs), so that every plane is
// read with whole words. A format says how one block of the file is read; kernels/unpack.cuh turns planes into halves.
//
// A tile is 16 rows x 64 columns. Lane 4g + t of a warp holds columns 16t .. 16t + 15 of rows g and g + 8: that is what
// mma.m16n8k16 wants of its first operand when the columns of both operands are permuted alike. Inside a lane, column
// 2p + e of a row is half e of pair p.

#include <cuda_fp16.h>

#include <cstdint>

#include "tensor/blocks.h"

namespace martlet::cuda {

inline constexpr int kTileRows = 16, kTileColumns = 64;

enum class Levels { linear, iq4, e2m1 };  // what a code stands for: itself less kOffset, or an entry of a table

// Base of the formats: what most of them have.
struct Codes {
  static constexpr Levels kLevels = Levels::linear;
  static constexpr bool kMinimum = false;
  static constexpr int kGroup = 32;
  static constexpr int kOffset = 0;
};

__device__ inline float half_bits(uint16_t bits) {
  return __half2float(__ushort_as_half(bits));
}

// Code of element i of a block of 32 whose byte b holds elements b and b + 16.
__device__ inline int split_nibble(const uint8_t* codes, int i) {
  return i < 16 ? codes[i] & 15 : codes[i - 16] >> 4;
}

}  // namespace martlet::cuda
