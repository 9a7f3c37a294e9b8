#pragma once

// The body of linear_rows(), instantiated by linear_*.cu for each number of rows: kColumns * 8 rows of activations
// against kTiles tiles of weights a warp. A block multiplies some tiles at once, a group of warps each (or each kTiles
// of them); the warps of a group share the columns.

#include <algorithm>

#include "backend/cuda/kernels/activation.cuh"
#include "backend/cuda/kernels/formats.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/linear.h"
#include "backend/cuda/kernels/unpack.cuh"

namespace martlet::cuda {

// What a thread may have, and warps of a block at most.
template <int kColumns>
inline constexpr int kRegisters = kColumns == 1 ? 80 : 128;
template <int kColumns>
inline constexpr int kWarps = kColumns == 1 ? kMaxWarps : 16;
// Whether two blocks may share tiles, with half of the columns each: many rows of activations are then read by half as
// many blocks.
template <int kColumns>
inline constexpr bool kPairs = kColumns == 4;
// Steps of weights that a warp has under way.
template <class F, int kTiles>
inline constexpr int kDepth = F::kBits == 16                ? 2 / kTiles
                              : F::kBits > 4 || kTiles == 2 ? 2
                                                            : 3;
// Steps of activations: a load is answered after all that were asked for before it, so one that the next step waits for
// shall not be behind weights of later steps.
template <class F, int kColumns, int kTiles>
inline constexpr int kRowsAhead = kColumns == 1 ? kDepth<F, kTiles> : 1;
inline constexpr int kDeclaredBytes = 1 << 10;  // of shared memory, that a kernel has in any case

// The tiles of a group in a round. Gate and up take turns.
template <int kTiles, bool kGated>
struct Unit {
  const DeviceSegment* segment[kTiles];
  int tile[kTiles];  // it may lie past its segment's last
  bool exists;

  __device__ Unit(const LinearArguments& a, int round, int group) {
    const int in_block = round * a.tiles_at_once + group * kTiles;
    int tile0 = static_cast<int>(blockIdx.x >> a.paired) * a.tiles_each + in_block, s = 0;
    exists = in_block < a.tiles_each;
    if constexpr (kGated) {
      exists &= tile0 < 2 * tiles_of(a.segments[0]);
#pragma unroll
      for (int m = 0; m < kTiles; ++m) segment[m] = &a.segments[(tile0 + m) % 2], tile[m] = (tile0 + m) / 2;
    } else {
      for (; s + 1 < a.segment_count && tile0 >= tiles_of(a.segments[s]); ++s) tile0 -= tiles_of(a.segments[s]);
      exists &= tile0 < tiles_of(a.segments[s]);
#pragma unroll
      for (int m = 0; m < kTiles; ++m) segment[m] = &a.segments[s], tile[m] = tile0 + m;
    }
  }

  // Of a segment, as many as whole units have.
  __host__ __device__ static int tiles_of(const DeviceSegment& segment) {
    constexpr int kRows = kTileRows * (kGated ? 1 : kTiles);
    return (segment.rows + kRows - 1) / kRows * (kGated ? 1 : kTiles);
  }
};

__host__ __device__ inline int row_bytes(const LinearArguments& a) {
  return a.segments[0].steps * (kTileColumns * 2);
}

// A lane's activations of one step: sixteen halves.
__device__ inline void load_activations(const std::byte* at, uint32_t (&b)[8]) {
  const uint4* from = reinterpret_cast<const uint4*>(at);
  const uint4 low = from[0], high = from[1];
  b[0] = low.x, b[1] = low.y, b[2] = low.z, b[3] = low.w;
  b[4] = high.x, b[5] = high.y, b[6] = high.z, b[7] = high.w;
}

// The lane's part of a row's sum of squares, for the RMS norm of the input.
__device__ inline float squares_of(const LinearArguments& a, int row) {
  float sum = 0;
  if (!a.squares || row >= a.rows) return sum;
  for (int i = threadIdx.x % 32; i < a.square_tiles; i += 32) sum += a.squares[row * a.square_tiles + i];
  return sum;
}

// What each row's product is multiplied by, for that norm. A warp a row; `sum`: squares_of() its first one.
template <int kColumns>
__device__ void norm_factors(const LinearArguments& a, float sum, float (&factors)[kColumns * 8]) {
  const int warp = threadIdx.x / 32;
  for (int row = warp; row < a.rows; row += static_cast<int>(blockDim.x) / 32) {
    if (row != warp) sum = squares_of(a, row);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    const float factor = a.squares ? rsqrtf(sum / static_cast<float>(a.norm_columns) + a.epsilon) : 1;
    if (threadIdx.x % 32 == 0) factors[row] = factor;
  }
}

__device__ inline void multiply_tile(float (&c)[4], const uint32_t (&w)[16], const uint32_t (&b)[8]) {
#pragma unroll
  for (int j = 0; j < 4; ++j)
    multiply_add(c, w[2 * j], w[8 + 2 * j], w[2 * j + 1], w[9 + 2 * j], b[2 * j], b[2 * j + 1]);
}

// Steps begin .. end of a unit. The first weights are asked for before receive() waits for the input.
template <class F, int kColumns, int kTiles, bool kGated, class Receive>
__device__ void multiply(const LinearArguments& a, const Unit<kTiles, kGated>& unit, int begin, int end,
                         const Receive& receive, float (&sums)[kTiles][kColumns][4]) {
  constexpr int kDepth = cuda::kDepth<F, kTiles>, kRowsAhead = cuda::kRowsAhead<F, kColumns, kTiles>;
  constexpr int kStep = F::kBits == 16 ? kTileColumns * 2 : Record<F>::kBytes, kRowStep = kTileColumns * 2;
  const int lane = threadIdx.x % 32, steps = a.segments[0].steps;
  const std::byte *from[kTiles], *rows[kColumns];
  LaneTile<F> ahead[kDepth][kTiles] = {};
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
    const DeviceSegment& segment = *unit.segment[m];
    from[m] = place_of<F>(segment, min(unit.tile[m], (segment.rows - 1) / kTileRows), begin);
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      if (begin + d < end) ahead[d][m] = load_tile<F>(from[m] + d * kStep, steps, lane);
    }
  }
  receive();
  uint32_t x[kRowsAhead][kColumns][8] = {};
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
    rows[n] = reinterpret_cast<const std::byte*>(a.x) + min(8 * n + lane / 4, a.rows - 1) * row_bytes(a) +
              (lane % 4 * 32 + begin * kRowStep);
#pragma unroll
    for (int d = 0; d < kRowsAhead; ++d) {
      if (begin + d < end) load_activations(rows[n] + d * kRowStep, x[d][n]);
    }
  }
  for (int first = begin; first < end; first += kDepth) {
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      const int step = first + d;
      if (step >= end) break;
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        uint32_t w[16];
        unpack(ahead[d][m], w);
#pragma unroll
        for (int n = 0; n < kColumns; ++n) {
          multiply_tile(sums[m][n], w, x[d % kRowsAhead][n]);
          if (m == kTiles - 1 && step + kRowsAhead < end)
            load_activations(rows[n] + (kRowsAhead + d) * kRowStep, x[d % kRowsAhead][n]);
        }
      }
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        if (step + kDepth < end) ahead[d][m] = load_tile<F>(from[m] + (kDepth + d) * kStep, steps, lane);
      }
    }
#pragma unroll
    for (int m = 0; m < kTiles; ++m) from[m] += kDepth * kStep;
#pragma unroll
    for (int n = 0; n < kColumns; ++n) rows[n] += kDepth * kRowStep;
  }
}

// A warp's sums of `rows` rows in shared memory, [part][tile][row of activations][row of the tile].
template <int kColumns, int kTiles>
__device__ void share_sums(const LinearArguments& a, const float (&sums)[kTiles][kColumns][4], int n, int rows,
                           int part, int group, float* shared) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
    float* at = shared + (part * a.tiles_at_once + group * kTiles + m) * rows * kTileRows;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = 2 * t + i % 2;
      if (row < rows) at[row * kTileRows + g + i / 2 * 8] = sums[m][n][i];
    }
  }
}

// Sum over the parts, in ascending order of the weight's columns.
__device__ inline float total(const LinearArguments& a, const float* shared, int rows, int tile, int row, int column) {
  float sum = 0;
#pragma unroll 4
  for (int p = 0; p < a.parts; ++p) sum += shared[((p * a.tiles_at_once + tile) * rows + row) * kTileRows + column];
  return sum;
}

// Halves past the columns of an output that a product reads: zero.
__device__ inline void clear_padding(__half* y, int rows, int columns, int stride) {
  const int padding = stride - columns;
  for (int i = threadIdx.x; i < rows * padding; i += static_cast<int>(blockDim.x))
    y[int64_t{i / padding} * stride + columns + i % padding] = __half(0);
}

// What an output needs beside its product: bias and residual, and the weight of its norm. Asked for before the product
// is complete.
struct Extras {
  float added = 0, norm_weight = 0;
  __device__ Extras() {}
  __device__ Extras(const LinearArguments& a, const DeviceSegment& segment, int in_segment, int row) {
    if (in_segment >= segment.rows) return;
    const int at = segment.first_row + in_segment;
    added = (a.bias ? a.bias[at] : 0) + (a.residual ? a.residual[int64_t{row} * a.columns + at] : 0);
    if (a.normed) norm_weight = a.norm_weight[at];
  }
};

// y, and the first half of its norm where that is wanted. Sixteen lanes have a row of activations and a tile.
__device__ inline void write(const LinearArguments& a, const DeviceSegment& segment, int in_segment, int row,
                             float product, const Extras& extras) {
  const int at = segment.first_row + in_segment;
  float sum = 0;
  if (in_segment < segment.rows) {
    sum = product * (segment.scale * a.x_scale) + extras.added;
    a.y[int64_t{row} * a.columns + at] = sum;
    if (a.normed)
      a.normed[int64_t{row} * a.normed_stride + at] = __float2half_rn(sum * extras.norm_weight / a.normed_scale);
  }
  if (!a.normed) return;
  float squares = sum * sum;
  for (int offset = 8; offset > 0; offset /= 2)
    squares += __shfl_xor_sync(0xffffu << (threadIdx.x & 16), squares, offset);
  if (in_segment % kTileRows == 0 && in_segment < segment.rows)
    a.squares_out[row * a.tiles + segment.first_tile + in_segment / kTileRows] = squares;
}

__device__ inline void write_gated(const LinearArguments& a, int at, int row, float g, float u) {
  const DeviceSegment &gate = a.segments[0], &up = a.segments[1];
  if (at >= gate.rows) return;
  g *= gate.scale * a.x_scale;
  u *= up.scale * a.x_scale;
  if (a.bias) {
    g += a.bias[at];
    u += a.bias[up.first_row + at];
  }
  a.gated[int64_t{row} * a.gated_stride + at] = __float2half_rn(silu(g) * u / a.gated_scale);
}

// Output i of a round and of eight rows of activations: sixteen of a tile, tile after tile, row after row.
template <int kTiles, bool kGated>
struct Place {
  int tile, row, column, in_segment;
  const DeviceSegment* segment;

  __device__ Place(const LinearArguments& a, int round, int i) {
    const int tiles = a.tiles_at_once / (kGated ? 2 : 1), at = i / kTileRows % tiles;
    column = i % kTileRows;
    row = i / (kTileRows * tiles);
    tile = kGated ? 2 * at : at;
    const Unit<kTiles, kGated> unit(a, round, tile / kTiles);
    segment = unit.segment[0];
    in_segment = unit.exists ? (unit.tile[0] + (kGated ? 0 : at % kTiles)) * kTileRows + column : segment->rows;
  }
};

// Of the thread's output of the first round and rows.
template <int kTiles, bool kGated>
__device__ Extras first_extras(const LinearArguments& a) {
  const int mine = threadIdx.x;
  if (kGated || mine >= a.tiles_at_once * kTileRows * min(8, a.rows)) return {};
  const Place<kTiles, kGated> place(a, 0, mine);
  return Extras(a, *place.segment, place.in_segment, place.row);
}

// From the warps' sums of a round to what is written, eight rows of activations after another. `first`: of the thread's
// output of the first round and rows.
template <int kColumns, int kTiles, bool kGated>
__device__ void finish(const LinearArguments& a, int round, int part, int group,
                       const float (&sums)[kTiles][kColumns][4], const float (&factors)[kColumns * 8],
                       const Extras& first, float* shared) {
  using Place = cuda::Place<kTiles, kGated>;
  const int tiles = a.tiles_at_once / (kGated ? 2 : 1);
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
    const int rows = min(8, a.rows - 8 * n), outputs = tiles * kTileRows * rows;
    if (rows <= 0) break;
    if (round + n > 0) __syncthreads();
    share_sums(a, sums, n, rows, part, group, shared);
    const int mine = threadIdx.x;
    Extras extras = first;
    if (!kGated && round + n > 0 && mine < outputs) {
      const Place place(a, round, mine);
      extras = Extras(a, *place.segment, place.in_segment, 8 * n + place.row);
    }
    __syncthreads();
    for (int i = mine; i < outputs; i += static_cast<int>(blockDim.x)) {
      const Place place(a, round, i);
      const int row = 8 * n + place.row;
      const auto product = [&](int tile) {
        return total(a, shared, rows, tile, place.row, place.column) * factors[row];
      };
      if constexpr (kGated) {
        write_gated(a, place.in_segment, row, product(place.tile), product(place.tile + 1));
      } else {
        if (i != mine) extras = Extras(a, *place.segment, place.in_segment, row);
        write(a, *place.segment, place.in_segment, row, product(place.tile), extras);
      }
    }
  }
}

// As finish(), by two blocks that have half of the parts each and write half of the outputs each. The order of the sums
// is the same.
template <int kColumns, int kTiles, bool kGated>
__device__ void finish_pair(const LinearArguments& a, int round, int part, int group,
                            const float (&sums)[kTiles][kColumns][4], const float (&factors)[kColumns * 8],
                            float* shared) {
  using Place = cuda::Place<kTiles, kGated>;
  const int parts = a.parts / 2, tiles = a.tiles_at_once / (kGated ? 2 : 1), rank = blockIdx.x % 2;
  const int slab = parts * a.tiles_at_once * 8 * kTileRows;  // of eight rows of activations
  if (round > 0) meet_in_cluster();
#pragma unroll
  for (int n = 0; n < kColumns; ++n) share_sums(a, sums, n, 8, part, group, shared + n * slab);
  meet_in_cluster();
  const float* halves[2] = {in_cluster(shared, 0), in_cluster(shared, 1)};
  const int threads = static_cast<int>(blockDim.x);
  for (int i = rank * threads + threadIdx.x; i < tiles * kTileRows * a.rows; i += 2 * threads) {
    const Place place(a, round, i);
    const auto product = [&](int tile) {
      float sum = 0;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float* from = halves[half] + place.row / 8 * slab + (tile * 8 + place.row % 8) * kTileRows + place.column;
#pragma unroll 4
        for (int p = 0; p < parts; ++p) sum += from[p * a.tiles_at_once * 8 * kTileRows];
      }
      return sum * factors[place.row];
    };
    if constexpr (kGated) {
      write_gated(a, place.in_segment, place.row, product(place.tile), product(place.tile + 1));
    } else {
      const Extras extras(a, *place.segment, place.in_segment, place.row);
      write(a, *place.segment, place.in_segment, place.row, product(place.tile), extras);
    }
  }
}

template <int kColumns, int kTiles, bool kGated>
__global__ void __maxnreg__(kRegisters<kColumns>) linear_kernel(const __grid_constant__ LinearArguments a) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ float factors[kColumns * 8];
  start_next();
  const int warp = threadIdx.x / 32, parts = a.parts >> a.paired, group = warp / parts, in_block = warp % parts;
  const int part = in_block + (a.paired != 0 && blockIdx.x % 2 == 1 ? parts : 0);
  const int steps = a.segments[0].steps, begin = steps * part / a.parts, end = steps * (part + 1) / a.parts;
  auto* shared_sums = reinterpret_cast<float*>(shared);
  float squares = 0;
  Extras extras;
  for (int round = 0; round * a.tiles_at_once < a.tiles_each; ++round) {
    float sums[kTiles][kColumns][4] = {};
    // What is needed behind the product is asked for as soon as it is there.
    const auto receive = [&] {
      if (round > 0) return;
      wait_for_input();
      squares = squares_of(a, warp);
      if (kPairs<kColumns> && a.paired != 0) return;
      extras = first_extras<kTiles, kGated>(a);
    };
    const Unit<kTiles, kGated> unit(a, round, group);
    if (unit.exists) {
      with_layout(unit.segment[0]->format,
                  [&]<class F>(F) { multiply<F, kColumns>(a, unit, begin, end, receive, sums); });
    } else {
      receive();
    }
    if (round == 0) norm_factors<kColumns>(a, squares, factors);
    if (round == 0 && blockIdx.x == 0) {
      if (kGated) clear_padding(a.gated, a.rows, a.segments[0].rows, a.gated_stride);
      if (a.normed) clear_padding(a.normed, a.rows, a.columns, a.normed_stride);
    }
    if (kPairs<kColumns> && a.paired != 0) {
      finish_pair<kColumns, kTiles, kGated>(a, round, in_block, group, sums, factors, shared_sums);
    } else {
      finish<kColumns, kTiles, kGated>(a, round, in_block, group, sums, factors, extras, shared_sums);
    }
  }
  if (kPairs<kColumns> && a.paired != 0) meet_in_cluster();  // before the other block's sums go
}

template <int kColumns, int kTiles, bool kGated>
void launch_kernel(Stream& stream, const LinearArguments& a, int tiles) {
  static const cudaError_t raised =
      cudaFuncSetAttribute(linear_kernel<kColumns, kTiles, kGated>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           a.shared_bytes - kDeclaredBytes);
  stream.check(raised);
  launch_clusters(stream, 1u << a.paired, linear_kernel<kColumns, kTiles, kGated>,
                  static_cast<unsigned>((tiles + a.tiles_each - 1) / a.tiles_each) << a.paired,
                  static_cast<unsigned>((a.parts >> a.paired) * a.tiles_at_once / kTiles) * 32,
                  static_cast<size_t>(a.sums_bytes), a);
}

template <int kColumns, int kTiles, bool kGated>
void launch_linear(Stream& stream, LinearArguments a) {
  using Unit = cuda::Unit<kTiles, kGated>;
  int tiles = 0;
  for (int s = 0; s < (kGated ? 2 : a.segment_count); ++s) tiles += Unit::tiles_of(a.segments[s]);
  a.paired = kPairs<kColumns> && stream.dependent && a.parts % 2 == 0 ? 1 : 0;
  const int step = kGated ? 2 : kTiles, parts = a.parts >> a.paired, blocks = std::max(1, a.blocks >> a.paired);
  const int most = kWarps<kColumns> / parts * kTiles / step * step;
  a.tiles_each = ((tiles + blocks - 1) / blocks + step - 1) / step * step;
  a.tiles_at_once = std::min(a.tiles_each, std::max(most, step));
  a.sums_bytes = static_cast<int>(sizeof(float)) * parts * a.tiles_at_once * kTileRows *
                 (a.paired != 0 ? 8 * kColumns : std::min(a.rows, 8));
  launch_kernel<kColumns, kTiles, kGated>(stream, a, tiles);
}

}  // namespace martlet::cuda
