#pragma once

// Products of a few rows of activations with a weight: y = x W^T. Every row is summed in the same order whatever the
// number of rows, so that a row's result does not depend on what shares its batch.

#include <cuda_fp16.h>

#include <cstdint>

#include "backend/cuda/kernels/segment.h"
#include "backend/cuda/kernels/stream.h"

namespace martlet::cuda {

// Rows that linear_rows() takes at most.
inline constexpr int kFewRows = 32;
inline constexpr int kMaxWarps = 24, kMaxParts = 16;  // of a block; of a tile's columns

struct LinearArguments {
  DeviceSegment segments[kMaxSegments];
  int32_t segment_count = 0;
  int32_t tiles = 0;          // of all segments
  int32_t blocks = 0;         // that run at once: the device's multiprocessors
  int32_t shared_bytes = 0;   // that one of them may have
  int32_t columns = 0;        // rows of the weight: columns of y
  const __half* x = nullptr;  // [rows][steps * 64], zero past the weight's columns
  float x_scale = 1;          // the activations are this times the halves
  int32_t rows = 0;
  // RMS norm of the rows of x, where its scaling was left to do: sums of squares, [rows][square_tiles], of the rows'
  // `norm_columns` values before their weights. The product is multiplied by 1 / sqrt(mean + epsilon). Or null.
  const float* squares = nullptr;
  int32_t square_tiles = 0, norm_columns = 0;
  float epsilon = 0;
  const float* bias = nullptr;      // one a column of y, or null
  const float* residual = nullptr;  // as y, or null
  float* y = nullptr;               // [rows][columns]
  // The first half of an RMS norm of y: y * norm_weight / normed_scale goes to `normed`, [rows][normed_stride] halves,
  // and sums of squares of y to `squares_out`, [rows][tiles].
  const float* norm_weight = nullptr;
  __half* normed = nullptr;
  int32_t normed_stride = 0;
  float normed_scale = 1;
  float* squares_out = nullptr;
  // Gated: the two segments are gate and up, of the same format; silu(gate) * up / gated_scale goes to `gated`,
  // [rows][gated_stride] halves. y is not written.
  __half* gated = nullptr;
  int32_t gated_stride = 0;
  float gated_scale = 1;
  // Set by linear_rows(): parts that a tile's columns are cut into, tiles that a block multiplies at once and in all.
  int32_t parts = 0, tiles_at_once = 0, tiles_each = 0;
  int32_t paired = 0;      // 1: blocks in clusters of two have half of the parts each
  int32_t sums_bytes = 0;  // of shared memory, for the warps' sums
};

void linear_rows(Stream& stream, const LinearArguments& arguments);

// Rows first .. first + count of a segment as halves [count][steps * 64], for products of many rows. `first` starts a
// tile.
void unpack_rows(Stream& stream, const DeviceSegment& segment, int32_t first, int32_t count, __half* out);

}  // namespace martlet::cuda
