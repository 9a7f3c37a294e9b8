#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "tensor/format.h"

namespace martlet::cuda {

inline constexpr int kMaxSegments = 8;

// One matrix on the device. Quantized: planes of codes and scales in the order of formats/codes.cuh, tile after tile of
// 64 columns, then 16 rows further. Plain: halves, row after row. Columns are padded to 64 and rows to 16, with zeros.
// Values are those of the file times 2^-exponent, so that they lie well inside the range of halves.
struct DeviceSegment {
  Format format;        // F16 stands for every plain format
  int32_t rows;         // of the matrix itself
  int32_t first_row;    // in the weight
  int32_t first_tile;   // tiles of 16 rows, which never cross segments
  int32_t steps;        // of 64 columns
  float scale;          // 2^exponent
  const void* nibbles;  // or bytes of 8-bit codes, or halves of a plain format
  const void* pairs;
  const void* bits;
  const void* scales;
};

}  // namespace martlet::cuda
