#pragma once

// Matrix times activations, straight from the file's blocks: y[r][n] = sum_k x[r][k] * w[n][k].
// One order of adding (blocks ascending, the same fused multiply-adds) from one row to a full chunk and at every
// instruction level, so results are bit-identical whatever else is in the batch.

#include <cstddef>
#include <cstdint>

#include "tensor/format.h"

namespace martlet::cpu {

// How a format wants its activations: f32 as they are, or 8-bit codes with one scale per 32 or per 256 columns and the
// sums that offsets need. A row is activation_bytes() long; its layout is the kernels' own business.
enum class ActivationKind : uint8_t { f32, q8_32, q8_256 };

ActivationKind activation_kind(Format format);
int64_t activation_bytes(ActivationKind kind, int64_t columns);

// One job: `rows` activation rows against consecutive rows of one matrix in one format.
struct LinearJob {
  Format format;
  const std::byte* weights;  // row 0
  int64_t weight_row_bytes;
  int64_t columns;               // K, a multiple of the format's block
  const std::byte* activations;  // row 0, as quantize wrote it, 64-byte aligned
  int64_t activation_row_bytes;
  int64_t rows;
  float* y;               // y[r * y_stride + n]
  int64_t y_stride;       // in floats
  const float* bias;      // [n], or null
  const float* residual;  // residual[r * residual_stride + n] is added last, or null
  int64_t residual_stride;
  const std::byte* weights_end;  // prefetch runs no further
};

// The kernels of one instruction level. All functions are thread-safe and touch only what they are given.
struct LinearKernels {
  // x[columns] -> one activation row.
  void (*quantize)(ActivationKind kind, const float* x, int64_t columns, std::byte* out);
  // Output columns [begin, end) for all rows. begin is a multiple of kLinearTile; end is too, or the matrix's last row.
  // `scratch` holds scratch_bytes(columns) bytes, 64-byte aligned, one for each thread.
  void (*run)(const LinearJob& job, int64_t begin, int64_t end, std::byte* scratch);
  int64_t (*scratch_bytes)(int64_t columns);
  // At least `steps` rounds of the level's fastest 8-bit products, loads from the first cache included; returns how
  // many multiplications and additions that was. For measuring what the kernels could reach.
  int64_t (*run_peak)(int64_t steps);
};

inline constexpr int64_t kLinearTile = 32;

}  // namespace martlet::cpu
