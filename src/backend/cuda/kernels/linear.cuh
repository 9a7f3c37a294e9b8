#pragma once

// The body of linear_rows(), instantiated by linear_*.cu for each number of rows: kColumns * 8 rows of activations
// against kTiles tiles of weights a block.

#include "backend/cuda/kernels/activation.cuh"
#include "backend/cuda/kernels/formats.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/linear.h"
#include "backend/cuda/kernels/unpack.cuh"

namespace martlet::cuda {

inline constexpr int kMaxWarps = 16;
// Steps of weights that a warp has under way: about 2 KiB.
template <class F, int kTiles>
inline constexpr int kDepth = (F::kBits == 16 ? 2 : 4) / kTiles;

// A lane's activations of one step: sixteen halves of the row that its column of the product is.
struct LaneActivations {
  uint4 halves[2];
};

__device__ inline LaneActivations load_activations(const LinearArguments& a, int row, int step, int lane) {
  const uint4* from =
      reinterpret_cast<const uint4*>(a.x + (int64_t{row} * a.segments[0].steps + step) * kTileColumns) + lane % 4 * 2;
  return {from[0], from[1]};
}

// The warp's share of the columns of `kTiles` tiles against kColumns * 8 rows of activations.
template <class F, int kColumns, int kTiles>
__device__ void accumulate(const LinearArguments& a, const DeviceSegment* const (&segments)[kTiles],
                           const int (&tiles)[kTiles], float (&sums)[kTiles][kColumns][4]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int steps = segments[0]->steps;
  const int begin = steps * warp / warps, end = steps * (warp + 1) / warps;
  constexpr int kDepth = cuda::kDepth<F, kTiles>;
  LaneTile<F> ahead[kDepth][kTiles];
#pragma unroll
  for (int d = 0; d < kDepth; ++d) {
    if (begin + d >= end) break;
#pragma unroll
    for (int m = 0; m < kTiles; ++m) ahead[d][m] = load_tile<F>(*segments[m], tiles[m], begin + d, lane);
  }
  wait_for_input();
  int rows[kColumns];
#pragma unroll
  for (int n = 0; n < kColumns; ++n) rows[n] = min(8 * n + lane / 4, a.rows - 1);
  for (int first = begin; first < end; first += kDepth) {
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      const int step = first + d;
      if (step >= end) break;
      uint32_t w[kTiles][16];
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        unpack(ahead[d][m], w[m]);
        if (step + kDepth < end) ahead[d][m] = load_tile<F>(*segments[m], tiles[m], step + kDepth, lane);
      }
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        const LaneActivations x = load_activations(a, rows[n], step, lane);
        const uint32_t b[8] = {x.halves[0].x, x.halves[0].y, x.halves[0].z, x.halves[0].w,
                               x.halves[1].x, x.halves[1].y, x.halves[1].z, x.halves[1].w};
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            multiply_add(sums[m][n], w[m][2 * j], w[m][8 + 2 * j], w[m][2 * j + 1], w[m][9 + 2 * j], b[2 * j],
                         b[2 * j + 1]);
          }
        }
      }
    }
  }
}

// Warps' sums in shared memory, [warp][tile][row of activations][row of the tile].
template <int kColumns, int kTiles>
__device__ void share(const float (&sums)[kTiles][kColumns][4], float* shared) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      float* at = shared + ((warp * kTiles + m) * kColumns + n) * 8 * kTileRows;
#pragma unroll
      for (int i = 0; i < 4; ++i) at[(2 * t + i % 2) * kTileRows + g + i / 2 * 8] = sums[m][n][i];
    }
  }
}

// Sum over the warps, in ascending order of the weight's columns.
template <int kColumns, int kTiles>
__device__ float total(const float* shared, int tile, int row, int column) {
  const int warps = blockDim.x / 32;
  float sum = 0;
  for (int w = 0; w < warps; ++w) sum += shared[((w * kTiles + tile) * kColumns * 8 + row) * kTileRows + column];
  return sum;
}

template <int kColumns, int kTiles>
__device__ void write(const LinearArguments& a, const float* shared, const DeviceSegment& segment, int first_tile) {
  for (int i = threadIdx.x; i < kTiles * kTileRows * a.rows; i += blockDim.x) {
    const int tile = i / kTileRows % kTiles, row = i / (kTileRows * kTiles), column = i % kTileRows;
    const int in_segment = (first_tile + tile) * kTileRows + column;
    if (in_segment >= segment.rows) continue;
    const int at = segment.first_row + in_segment;
    float sum = total<kColumns, kTiles>(shared, tile, row, column) * (segment.scale * a.x_scale);
    if (a.bias) sum += a.bias[at];
    const int64_t y = int64_t{row} * a.columns + at;
    if (a.residual) sum += a.residual[y];
    a.y[y] = sum;
  }
}

template <int kColumns>
__device__ void write_gated(const LinearArguments& a, const float* shared, int tile) {
  const DeviceSegment &gate = a.segments[0], &up = a.segments[1];
  for (int i = threadIdx.x; i < kTileRows * a.rows; i += blockDim.x) {
    const int row = i / kTileRows, column = i % kTileRows, at = tile * kTileRows + column;
    if (at >= gate.rows) continue;
    float g = total<kColumns, 2>(shared, 0, row, column) * (gate.scale * a.x_scale);
    float u = total<kColumns, 2>(shared, 1, row, column) * (up.scale * a.x_scale);
    if (a.bias) {
      g += a.bias[at];
      u += a.bias[up.first_row + at];
    }
    a.gated[int64_t{row} * a.gated_stride + at] = __float2half_rn(silu(g) * u / a.gated_scale);
  }
}

// One block: kTiles neighbouring tiles of one segment, or a tile of gate and the same of up. Its warps share the
// columns.
template <int kColumns, int kTiles, bool kGated>
__global__ void __launch_bounds__(kMaxWarps * 32) linear_kernel(const __grid_constant__ LinearArguments a) {
  extern __shared__ float shared[];
  const DeviceSegment* segments[kTiles];
  int tiles[kTiles];
  if constexpr (kGated) {
    segments[0] = &a.segments[0];
    segments[1] = &a.segments[1];
    tiles[0] = tiles[1] = blockIdx.x;
  } else {
    int block = blockIdx.x, s = 0;
    while (s + 1 < a.segment_count) {
      const int blocks = (a.segments[s].rows + kTileRows * kTiles - 1) / (kTileRows * kTiles);
      if (block < blocks) break;
      block -= blocks;
      ++s;
    }
    const int last = (a.segments[s].rows - 1) / kTileRows;
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
      segments[m] = &a.segments[s];
      tiles[m] = min(block * kTiles + m, last);
    }
  }
  start_next();
  float sums[kTiles][kColumns][4] = {};
  with_format(segments[0]->format, [&]<class F>(F) { accumulate<F, kColumns, kTiles>(a, segments, tiles, sums); });
  share<kColumns, kTiles>(sums, shared);
  __syncthreads();
  if constexpr (kGated) {
    write_gated<kColumns>(a, shared, tiles[0]);
  } else {
    write<kColumns, kTiles>(a, shared, *segments[0], tiles[0]);
  }
}

inline int warps_for(int steps) {
  return steps >= 96 ? kMaxWarps : steps >= 24 ? 8 : 4;
}

template <int kColumns, int kTiles, bool kGated>
void launch_linear(Stream& stream, const LinearArguments& a) {
  unsigned blocks = 0;
  for (int s = 0; s < (kGated ? 1 : a.segment_count); ++s) {
    const int tiles = (a.segments[s].rows + kTileRows - 1) / kTileRows;
    blocks += static_cast<unsigned>(kGated ? tiles : (tiles + kTiles - 1) / kTiles);
  }
  const int warps = warps_for(a.segments[0].steps);
  const size_t bytes = sizeof(float) * static_cast<size_t>(warps) * kTiles * kColumns * 8 * kTileRows;
  if (bytes > 48 << 10) {
    stream.check(cudaFuncSetAttribute(linear_kernel<kColumns, kTiles, kGated>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  }
  launch(stream, linear_kernel<kColumns, kTiles, kGated>, blocks, static_cast<unsigned>(warps) * 32, bytes, a);
}

}  // namespace martlet::cuda
