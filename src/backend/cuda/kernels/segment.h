#pragma once

#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "tensor/format.h"

namespace martlet::cuda {

inline constexpr int kMaxSegments = 8;

// One matrix on the device. Quantized: a record for each tile of 16 rows x 64 columns (see kernels/unpack.cuh), those
// of a tile's columns side by side. Plain: halves, row after row. Columns are padded to 64 and rows to 16, with zeros.
// Values are those of the file times 2^-exponent, so that they, or a quantized format's scales, lie well inside the
// range of halves.
struct DeviceSegment {
  Format format;         // F16 stands for every plain format
  int32_t rows;          // of the matrix itself
  int32_t first_row;     // in the weight
  int32_t first_tile;    // tiles of 16 rows, which never cross segments
  int32_t steps;         // of 64 columns
  int32_t record_bytes;  // of a tile's 64 columns
  float scale;           // 2^exponent
  const std::byte* data;
};

}  // namespace martlet::cuda
