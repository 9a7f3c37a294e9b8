#include "backend/cuda/kernels/rows.h"

#include "backend/cuda/kernels/activation.cuh"
#include "backend/cuda/kernels/formats.cuh"
#include "backend/cuda/kernels/launch.cuh"

namespace martlet::cuda {

namespace {

constexpr int kThreads = 256;

unsigned blocks_for(int64_t items) {
  return static_cast<unsigned>((items + kThreads - 1) / kThreads);
}

// Writes the row of the table that lane g or g + 8 of the tile has. A warp a step of 64 columns.
template <class F>
__device__ void embed_step(const DeviceSegment& table, int token, int step, int columns, float* y) {
  const int lane = threadIdx.x % 32, in_tile = token % kTileRows;
  uint32_t w[16];
  unpack(load_tile<F>(place_of<F>(table, token / kTileRows, step), table.steps, lane), w);
  if (lane / 4 != in_tile % 8) return;
#pragma unroll
  for (int p = 0; p < 8; ++p) {
    const float2 value = __half22float2(as_halves(in_tile < 8 ? w[p] : w[8 + p]));
    const int column = step * kTileColumns + lane % 4 * 16 + 2 * p;
    if (column < columns) y[column] = value.x * table.scale;
    if (column + 1 < columns) y[column + 1] = value.y * table.scale;
  }
}

__global__ void embed_kernel(const __grid_constant__ DeviceSegment table, const int32_t* tokens, int columns,
                             float* y) {
  start_next();
  wait_for_input();
  const int step = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, row = blockIdx.y;
  if (step >= table.steps) return;
  const int token = min(max(tokens[row], 0), table.rows - 1);
  with_layout(table.format,
              [&]<class F>(F) { embed_step<F>(table, token, step, columns, y + int64_t{row} * columns); });
}

__device__ float sum_of_block(float value) {
  __shared__ float sums[32];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) sum += sums[w];
  return sum;
}

__global__ void __launch_bounds__(1024)
    norm_kernel(const float* x, const float* weight, float epsilon, int columns, __half* y, int stride) {
  start_next();
  wait_for_input();
  x += int64_t{blockIdx.x} * columns;
  y += int64_t{blockIdx.x} * stride;
  float squares = 0;
  if (columns % 4 == 0) {
    for (int i = threadIdx.x; i < columns / 4; i += blockDim.x) {
      const float4 v = reinterpret_cast<const float4*>(x)[i];
      squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
  } else {
    for (int i = threadIdx.x; i < columns; i += blockDim.x) squares += x[i] * x[i];
  }
  const float factor = rsqrtf(sum_of_block(squares) / static_cast<float>(columns) + epsilon);
  for (int i = 2 * threadIdx.x; i < stride; i += 2 * blockDim.x) {
    const float first = i < columns ? x[i] * factor * weight[i] : 0;
    const float second = i + 1 < columns ? x[i + 1] * factor * weight[i + 1] : 0;
    *reinterpret_cast<__half2*>(y + i) = __floats2half2_rn(first, second);
  }
}

// Two neighbours of a row; the second one is asked for only where there is one.
__device__ inline float2 load_pair(const float* x, bool both) {
  return make_float2(x[0], both ? x[1] : 0);
}
__device__ inline float2 load_pair(const __half* x, bool both) {
  if (both && reinterpret_cast<uintptr_t>(x) % sizeof(__half2) == 0)
    return __half22float2(*reinterpret_cast<const __half2*>(x));
  return make_float2(__half2float(x[0]), both ? __half2float(x[1]) : 0);
}

template <class Value>
__global__ void silu_kernel(const Value* x, float x_scale, int columns, __half* y, int stride, float inverse) {
  start_next();
  wait_for_input();
  const int i = 2 * (blockIdx.x * kThreads + threadIdx.x), row = blockIdx.y;
  if (i >= stride) return;
  const Value* from = x + int64_t{row} * 2 * columns + i;
  float2 out = {};
  if (i < columns) {
    const bool both = i + 1 < columns;
    const float2 gate = load_pair(from, both), up = load_pair(from + columns, both);
    const float by = x_scale * inverse;
    out = make_float2(silu(gate.x * x_scale) * up.x * by, silu(gate.y * x_scale) * up.y * by);
  }
  *reinterpret_cast<__half2*>(y + int64_t{row} * stride + i) = __floats2half2_rn(out.x, out.y);
}

__global__ void gather_kernel(const float* x, const int32_t* from, int columns, float* y) {
  start_next();
  wait_for_input();
  const int i = blockIdx.x * kThreads + threadIdx.x, row = blockIdx.y;
  if (i < columns) y[int64_t{row} * columns + i] = x[int64_t{from[row]} * columns + i];
}

__global__ void start_kernel(const float* bias, const float* residual, int columns, float* y) {
  start_next();
  wait_for_input();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const int64_t at = int64_t{blockIdx.y} * columns + i;
  if (i < columns) y[at] = (bias ? bias[i] : 0) + (residual ? residual[at] : 0);
}

__global__ void narrow_kernel(const float* x, int columns, __half* y, int stride, float inverse) {
  start_next();
  wait_for_input();
  const int i = blockIdx.x * kThreads + threadIdx.x, row = blockIdx.y;
  if (i >= stride) return;
  y[int64_t{row} * stride + i] = i < columns ? __float2half_rn(x[int64_t{row} * columns + i] * inverse) : __half(0);
}

__global__ void widen_kernel(const __half* x, int columns, int stride, float scale, NormLeft norm, float* y) {
  start_next();
  wait_for_input();
  const int i = blockIdx.x * kThreads + threadIdx.x, row = blockIdx.y;
  if (norm.squares) {
    float part = 0;
    for (int t = threadIdx.x; t < norm.tiles; t += kThreads) part += norm.squares[int64_t{row} * norm.tiles + t];
    scale *= rsqrtf(sum_of_block(part) / static_cast<float>(columns) + norm.epsilon);
  }
  if (i < columns) y[int64_t{row} * columns + i] = __half2float(x[int64_t{row} * stride + i]) * scale;
}

}  // namespace

void embed(Stream& stream, const DeviceSegment& table, const int32_t* tokens, int32_t rows, int32_t columns, float* y) {
  constexpr int kWarps = 4;
  const dim3 grid(static_cast<unsigned>((table.steps + kWarps - 1) / kWarps), static_cast<unsigned>(rows));
  launch(stream, embed_kernel, grid, kWarps * 32, 0, table, tokens, columns, y);
}

void rms_norm(Stream& stream, const float* x, const float* weight, float epsilon, int32_t rows, int32_t columns,
              __half* y, int32_t stride) {
  const unsigned threads = columns >= 4096 ? 1024 : columns >= 1024 ? 512 : 128;
  launch(stream, norm_kernel, static_cast<unsigned>(rows), threads, 0, x, weight, epsilon, columns, y, stride);
}

template <class Value>
void silu_gated(Stream& stream, const Value* x, float x_scale, int32_t rows, int32_t columns, __half* y, int32_t stride,
                float scale) {
  launch(stream, silu_kernel<Value>, dim3(blocks_for(stride / 2), static_cast<unsigned>(rows)), kThreads, 0, x, x_scale,
         columns, y, stride, 1 / scale);
}
template void silu_gated(Stream&, const float*, float, int32_t, int32_t, __half*, int32_t, float);
template void silu_gated(Stream&, const __half*, float, int32_t, int32_t, __half*, int32_t, float);

void gather(Stream& stream, const float* x, const int32_t* from, int32_t rows, int32_t columns, float* y) {
  if (rows == 0) return;
  launch(stream, gather_kernel, dim3(blocks_for(columns), static_cast<unsigned>(rows)), kThreads, 0, x, from, columns,
         y);
}

void start_sums(Stream& stream, const float* bias, const float* residual, int32_t rows, int32_t columns, float* y) {
  launch(stream, start_kernel, dim3(blocks_for(columns), static_cast<unsigned>(rows)), kThreads, 0, bias, residual,
         columns, y);
}

void narrow(Stream& stream, const float* x, int32_t rows, int32_t columns, __half* y, int32_t stride, float scale) {
  launch(stream, narrow_kernel, dim3(blocks_for(stride), static_cast<unsigned>(rows)), kThreads, 0, x, columns, y,
         stride, 1 / scale);
}

void widen(Stream& stream, const __half* x, int32_t rows, int32_t columns, int32_t stride, float scale,
           const NormLeft& norm, float* y) {
  launch(stream, widen_kernel, dim3(blocks_for(columns), static_cast<unsigned>(rows)), kThreads, 0, x, columns, stride,
         scale, norm, y);
}

}  // namespace martlet::cuda
