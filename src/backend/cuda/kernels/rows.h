#pragma once

// Operators that handle each row on its own.

#include <cuda_fp16.h>

#include <cstdint>

#include "backend/cuda/kernels/segment.h"
#include "backend/cuda/kernels/stream.h"

namespace martlet::cuda {

// Halves that a product reads lie in rows of `stride` = columns rounded up to 64; the padding is zero.
void embed(Stream& stream, const DeviceSegment& table, const int32_t* tokens, int32_t rows, int32_t columns, float* y);
void rms_norm(Stream& stream, const float* x, const float* weight, float epsilon, int32_t rows, int32_t columns,
              __half* y, int32_t stride);
// x: [gate | up] over x_scale, 2 * columns wide. y = silu(gate) * up / scale.
template <class Value>
void silu_gated(Stream& stream, const Value* x, float x_scale, int32_t rows, int32_t columns, __half* y, int32_t stride,
                float scale);
void gather(Stream& stream, const float* x, const int32_t* from, int32_t rows, int32_t columns, float* y);
// y = bias + residual, either null; what a product of the library is added to.
void start_sums(Stream& stream, const float* bias, const float* residual, int32_t rows, int32_t columns, float* y);
// y = x / scale.
void narrow(Stream& stream, const float* x, int32_t rows, int32_t columns, __half* y, int32_t stride, float scale);
// Sums of squares that a product left, `tiles` a row, or null: see LinearArguments.
struct NormLeft {
  const float* squares;
  int32_t tiles;
  float epsilon;
};
// y = x * scale, with what is left of a norm.
void widen(Stream& stream, const __half* x, int32_t rows, int32_t columns, int32_t stride, float scale,
           const NormLeft& norm, float* y);

}  // namespace martlet::cuda
