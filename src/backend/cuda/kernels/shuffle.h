#pragma once

// From the file's layout to the device's, once, at upload.

#include <cstddef>
#include <cstdint>

#include "backend/cuda/kernels/segment.h"
#include "backend/cuda/kernels/stream.h"

namespace martlet::cuda {

int32_t record_bytes(Format format);                                  // of a tile's 64 columns
int64_t segment_bytes(Format format, int64_t rows, int64_t columns);  // padding included

struct ShuffleArguments {
  DeviceSegment segment;    // where it goes; scale: 2^exponent that the values are divided by
  Format format;            // in the file
  const std::byte* native;  // rows from first_tile on, as in the file
  int64_t row_bytes = 0;
  int32_t columns = 0;
  int32_t first_tile = 0, tiles = 0;
  // Raised to the bits of the largest absolute value stored (of scales and minimums where there are codes), as f32.
  uint32_t* largest = nullptr;
};

void shuffle(Stream& stream, const ShuffleArguments& arguments);

}  // namespace martlet::cuda
