#pragma once

// The body of linear_rows(), instantiated by linear_*.cu for each number of rows: kColumns * 8 rows of activations
// against kTiles tiles of weights a block.

#include "backend/cuda/kernels/activation.cuh"
#include "backend/cuda/kernels/formats.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/linear.h"
#include "backend/cuda/kernels/unpack.cuh"

namespace martlet::cuda {

inline constexpr int kMaxWarps = 16, kMaxGatedWarps = 8;
// Threads of a block at most, and blocks that a multiprocessor holds: what registers a kernel may take follows.
template <int kColumns, int kTiles, bool kGated>
inline constexpr int kThreads = 32 * (kGated ? kMaxGatedWarps : kMaxWarps);
template <int kColumns, int kTiles, bool kGated>
inline constexpr int kBlocks = kTiles == 1     ? 2
                               : !kGated       ? 1
                               : kColumns == 1 ? 3
                               : kColumns == 2 ? 2
                                               : 1;
// Steps of weights that a warp has under way: about 2 KiB.
template <class F, int kTiles>
inline constexpr int kDepth = F::kBits == 16 ? 1
                              : kTiles == 1  ? 3
                                             : 2;

// A lane's activations of one step: sixteen halves of the row that its column of the product is.
__device__ inline void load_activations(const LinearArguments& a, int row, int step, int lane, uint32_t (&b)[8]) {
  const uint4* from =
      reinterpret_cast<const uint4*>(a.x + (int64_t{row} * a.segments[0].steps + step) * kTileColumns) + lane % 4 * 2;
  const uint4 low = from[0], high = from[1];
  b[0] = low.x, b[1] = low.y, b[2] = low.z, b[3] = low.w;
  b[4] = high.x, b[5] = high.y, b[6] = high.z, b[7] = high.w;
}

// What each row's product is multiplied by, for the RMS norm of its input. A warp a row.
template <int kColumns>
__device__ void norm_factors(const LinearArguments& a, float (&factors)[kColumns * 8]) {
  const int lane = threadIdx.x % 32;
  for (int row = threadIdx.x / 32; row < a.rows; row += blockDim.x / 32) {
    float sum = 0;
    for (int i = lane; i < a.square_tiles; i += 32) sum += a.squares[row * a.square_tiles + i];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    if (lane == 0) factors[row] = a.squares ? rsqrtf(sum / static_cast<float>(a.norm_columns) + a.epsilon) : 1;
  }
}

__device__ inline void multiply_tile(float (&c)[4], const uint32_t (&w)[16], const uint32_t (&b)[8]) {
#pragma unroll
  for (int j = 0; j < 4; ++j)
    multiply_add(c, w[2 * j], w[8 + 2 * j], w[2 * j + 1], w[9 + 2 * j], b[2 * j], b[2 * j + 1]);
}

// Bias and residual of output i of the block.
template <int kTiles>
__device__ inline float added_to(const LinearArguments& a, const DeviceSegment& segment, int first_tile, int i) {
  const int row = i / (kTileRows * kTiles);
  const int in_segment = (first_tile + i / kTileRows % kTiles) * kTileRows + i % kTileRows;
  if (row >= a.rows || in_segment >= segment.rows) return 0;
  const int at = segment.first_row + in_segment;
  return (a.bias ? a.bias[at] : 0) + (a.residual ? a.residual[int64_t{row} * a.columns + at] : 0);
}

// The warp's share of the columns of `kTiles` tiles against kColumns * 8 rows of activations.
template <class F, int kColumns, int kTiles, bool kGated>
__device__ void accumulate(const LinearArguments& a, const DeviceSegment* const (&segments)[kTiles],
                           const int (&tiles)[kTiles], float (&sums)[kTiles][kColumns][4],
                           float (&factors)[kColumns * 8], float& added) {
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
  // Used at the end, asked for now.
  if constexpr (!kGated) added = added_to<kTiles>(a, *segments[0], tiles[0], threadIdx.x);
  norm_factors<kColumns>(a, factors);
  int rows[kColumns];
#pragma unroll
  for (int n = 0; n < kColumns; ++n) rows[n] = min(8 * n + lane / 4, a.rows - 1);
  for (int first = begin; first < end; first += kDepth) {
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      const int step = first + d;
      if (step >= end) break;
      if constexpr (kColumns == 1) {
        // One tile after the other: half the registers.
        uint32_t b[8];
        load_activations(a, rows[0], step, lane, b);
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
          uint32_t w[16];
          unpack(ahead[d][m], w);
          if (step + kDepth < end) ahead[d][m] = load_tile<F>(*segments[m], tiles[m], step + kDepth, lane);
          multiply_tile(sums[m][0], w, b);
        }
      } else {
        uint32_t w[kTiles][16];
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
          unpack(ahead[d][m], w[m]);
          if (step + kDepth < end) ahead[d][m] = load_tile<F>(*segments[m], tiles[m], step + kDepth, lane);
        }
#pragma unroll
        for (int n = 0; n < kColumns; ++n) {
          uint32_t b[8];
          load_activations(a, rows[n], step, lane, b);
#pragma unroll
          for (int m = 0; m < kTiles; ++m) multiply_tile(sums[m][n], w[m], b);
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

// Halves past the columns of an output that a product reads: zero.
__device__ inline void clear_padding(__half* y, int rows, int columns, int stride) {
  if (blockIdx.x != 0) return;
  const int padding = stride - columns;
  for (int i = threadIdx.x; i < rows * padding; i += blockDim.x)
    y[int64_t{i / padding} * stride + columns + i % padding] = __half(0);
}

// y, and the first half of its norm where that is wanted. Sixteen lanes have a row of activations and a tile.
template <int kColumns, int kTiles>
__device__ void write(const LinearArguments& a, const float* shared, const float (&factors)[kColumns * 8],
                      const DeviceSegment& segment, int first_tile, float added) {
  if (a.normed) clear_padding(a.normed, a.rows, a.columns, a.normed_stride);
  for (int i = threadIdx.x; i < kTiles * kTileRows * a.rows; i += blockDim.x) {
    const int tile = i / kTileRows % kTiles, row = i / (kTileRows * kTiles), column = i % kTileRows;
    const int in_segment = (first_tile + tile) * kTileRows + column;
    const int at = segment.first_row + in_segment;
    float sum = 0;
    if (in_segment < segment.rows) {
      if (i != threadIdx.x) added = added_to<kTiles>(a, segment, first_tile, i);
      sum = total<kColumns, kTiles>(shared, tile, row, column) * (segment.scale * a.x_scale) * factors[row] + added;
      a.y[int64_t{row} * a.columns + at] = sum;
      if (a.normed)
        a.normed[int64_t{row} * a.normed_stride + at] = __float2half_rn(sum * a.norm_weight[at] / a.normed_scale);
    }
    if (!a.normed) continue;
    float squares = sum * sum;
    for (int offset = 8; offset > 0; offset /= 2)
      squares += __shfl_xor_sync(0xffffu << (threadIdx.x & 16), squares, offset);
    if (column == 0 && in_segment < segment.rows)
      a.squares_out[row * a.tiles + segment.first_tile + first_tile + tile] = squares;
  }
}

template <int kColumns>
__device__ void write_gated(const LinearArguments& a, const float* shared, const float (&factors)[kColumns * 8],
                            int tile) {
  const DeviceSegment &gate = a.segments[0], &up = a.segments[1];
  clear_padding(a.gated, a.rows, gate.rows, a.gated_stride);
  for (int i = threadIdx.x; i < kTileRows * a.rows; i += blockDim.x) {
    const int row = i / kTileRows, column = i % kTileRows, at = tile * kTileRows + column;
    if (at >= gate.rows) continue;
    float g = total<kColumns, 2>(shared, 0, row, column) * (gate.scale * a.x_scale) * factors[row];
    float u = total<kColumns, 2>(shared, 1, row, column) * (up.scale * a.x_scale) * factors[row];
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
__global__ void __launch_bounds__(kThreads<kColumns, kTiles, kGated>, kBlocks<kColumns, kTiles, kGated>)
    linear_kernel(const __grid_constant__ LinearArguments a) {
  extern __shared__ float shared[];
  __shared__ float factors[kColumns * 8];
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
  float added = 0;
  with_layout(segments[0]->format,
              [&]<class F>(F) { accumulate<F, kColumns, kTiles, kGated>(a, segments, tiles, sums, factors, added); });
  share<kColumns, kTiles>(sums, shared);
  __syncthreads();
  if constexpr (kGated) {
    write_gated<kColumns>(a, shared, factors, tiles[0]);
  } else {
    write<kColumns, kTiles>(a, shared, factors, *segments[0], tiles[0], added);
  }
}

// Warps that share the columns of each tile: enough for the whole device, and at least two steps each. Depends on the
// weight alone, so that every number of rows is summed alike.
inline int warps_for(int tiles, int steps, int most) {
  constexpr int kWarpsOfDevice = 2112;  // 16 of each of 132 multiprocessors
  int warps = steps >= 64 ? 8 : 4;
  while (warps < most && warps * tiles < kWarpsOfDevice && warps * 4 <= steps) warps *= 2;
  return steps >= 128 ? most : warps;
}

template <int kColumns, int kTiles, bool kGated>
void launch_linear(Stream& stream, const LinearArguments& a) {
  unsigned blocks = 0;
  for (int s = 0; s < (kGated ? 1 : a.segment_count); ++s) {
    const int tiles = (a.segments[s].rows + kTileRows - 1) / kTileRows;
    blocks += static_cast<unsigned>(kGated ? tiles : (tiles + kTiles - 1) / kTiles);
  }
  // Gate and up may also be multiplied as a plain stack.
  const bool pair = a.segment_count == 2 && a.segments[0].rows == a.segments[1].rows;
  const int warps = warps_for(pair ? a.tiles / 2 : a.tiles, a.segments[0].steps, pair ? kMaxGatedWarps : kMaxWarps);
  const size_t bytes = sizeof(float) * static_cast<size_t>(warps) * kTiles * kColumns * 8 * kTileRows;
  if (bytes > 48 << 10) {
    stream.check(cudaFuncSetAttribute(linear_kernel<kColumns, kTiles, kGated>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  }
  launch(stream, linear_kernel<kColumns, kTiles, kGated>, blocks, static_cast<unsigned>(warps) * 32, bytes, a);
}

}  // namespace martlet::cuda
