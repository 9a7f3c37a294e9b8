#include "backend/cuda/kernels/shuffle.h"

#include "backend/cuda/kernels/formats.cuh"
#include "backend/cuda/kernels/launch.cuh"

namespace martlet::cuda {
namespace {

constexpr int kWarps = 8;

__device__ inline void raise(uint32_t* largest, float value) {
  const uint32_t all = __reduce_max_sync(~0u, __float_as_uint(fabsf(value)));
  if (threadIdx.x % 32 == 0 && all > 0) atomicMax(largest, all);
}

// A lane's codes of one row, cut into planes.
struct RowPlanes {
  uint32_t nibbles[2] = {}, bytes[4] = {};
  uint32_t pairs = 0, bits = 0;
};

template <class F>
__device__ RowPlanes read_row(const typename F::Block* blocks, int first) {
  constexpr int kElements = sizeof(typename F::Block) > 64 ? 256 : 32;
  RowPlanes out;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int p = i / 2, e = i % 2, k = first + i;
    const uint32_t code = F::code(blocks[k / kElements], k % kElements);
    if constexpr (F::kBits == 8) out.bytes[i / 4] |= code << 8 * (i % 4);
    if constexpr (kHasNibbles<F>) out.nibbles[p / 4] |= (code & 15) << (place_of_nibble(p) + 16 * e);
    if constexpr (kHasPairs<F>) out.pairs |= (kHasNibbles<F> ? code >> 4 : code & 3) << (place_of_pair(p) + 16 * e);
    if constexpr (kHasBits<F>) out.bits |= code >> (F::kBits - 1) << (place_of_bit(p) + 16 * e);
  }
  return out;
}

template <class F>
__device__ void shuffle_tile(const ShuffleArguments& a, int tile, int step, int lane) {
  using Block = typename F::Block;
  constexpr int kElements = sizeof(Block) > 64 ? 256 : 32;
  const int t = lane % 4, g = lane / 4, first = step * kTileColumns + t * 16;
  RowPlanes planes[2];
  float scales[2] = {}, minimums[2] = {}, largest = 0;
  for (int row = 0; row < 2; ++row) {
    const int in_chunk = (tile - a.first_tile) * kTileRows + g + 8 * row;
    if (tile * kTileRows + g + 8 * row >= a.segment.rows || first >= a.columns) continue;
    const Block* blocks = reinterpret_cast<const Block*>(a.native + in_chunk * a.row_bytes);
    planes[row] = read_row<F>(blocks, first);
    const Block& block = blocks[first / kElements];
    const int group = first % kElements / F::kGroup;
    constexpr float kStored = 1 << F::kScaleExponent;
    scales[row] = F::scale(block, group) / a.segment.scale * kStored;
    if constexpr (F::kMinimum) minimums[row] = F::minimum(block, group) / a.segment.scale;
    largest = fmaxf(largest, fmaxf(fabsf(scales[row]), fabsf(minimums[row])));
  }
  std::byte* record =
      const_cast<std::byte*>(a.segment.data) + (int64_t{tile} * a.segment.steps + step) * Record<F>::kBytes;
  const auto put = [&](int offset, int i, auto value) {
    reinterpret_cast<decltype(value)*>(record + offset)[i] = value;
  };
  if constexpr (F::kBits == 8) {
    for (int row = 0; row < 2; ++row) {
      const uint32_t* b = planes[row].bytes;
      put(512 * row, lane, make_uint4(b[0], b[1], b[2], b[3]));
    }
  }
  if constexpr (kHasNibbles<F>) {
    put(0, lane, make_uint4(planes[0].nibbles[0], planes[0].nibbles[1], planes[1].nibbles[0], planes[1].nibbles[1]));
  }
  if constexpr (kHasPairs<F>) put(Record<F>::kPairs, lane, make_uint2(planes[0].pairs, planes[1].pairs));
  if constexpr (kHasBits<F>) put(Record<F>::kSingles, lane, planes[0].bits | planes[1].bits << 8);
  raise(a.largest, largest);
  if (t * 16 % F::kGroup != 0) return;
  const int scale = t * 16 / F::kGroup * 8 + g;
  const uint32_t both = as_bits(__floats2half2_rn(scales[0], scales[1]));
  if constexpr (F::kMinimum) {
    put(Record<F>::kScales, scale, make_uint2(both, as_bits(__floats2half2_rn(minimums[0], minimums[1]))));
  } else {
    put(Record<F>::kScales, scale, both);
  }
}

template <class Read>
__device__ void convert_row(const ShuffleArguments& a, int tile, int step, int lane, Read read) {
  for (int i = lane; i < kTileRows * kTileColumns; i += 32) {
    const int row = tile * kTileRows + i / kTileColumns, column = step * kTileColumns + i % kTileColumns;
    float value = 0;
    if (row < a.segment.rows && column < a.columns) {
      value = read(a.native + (row - a.first_tile * kTileRows) * a.row_bytes, column) / a.segment.scale;
    }
    raise(a.largest, value);
    __half* to = reinterpret_cast<__half*>(const_cast<std::byte*>(a.segment.data));
    to[int64_t{row} * a.segment.steps * kTileColumns + column] = __float2half_rn(value);
  }
}

// A warp for each tile and step.
__global__ void shuffle_kernel(const __grid_constant__ ShuffleArguments a) {
  wait_for_input();
  const int lane = threadIdx.x % 32;
  const int64_t item = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (item >= int64_t{a.tiles} * a.segment.steps) return;
  const int tile = a.first_tile + static_cast<int>(item / a.segment.steps);
  const int step = static_cast<int>(item % a.segment.steps);
  switch (a.format) {
    case Format::F32:
      return convert_row(a, tile, step, lane,
                         [](const std::byte* row, int i) { return reinterpret_cast<const float*>(row)[i]; });
    case Format::F16:
      return convert_row(a, tile, step, lane, [](const std::byte* row, int i) {
        return half_bits(reinterpret_cast<const uint16_t*>(row)[i]);
      });
    case Format::BF16:
      return convert_row(a, tile, step, lane, [](const std::byte* row, int i) {
        return __uint_as_float(uint32_t{reinterpret_cast<const uint16_t*>(row)[i]} << 16);
      });
    default:
      return with_format(a.format, [&]<class F>(F) {
        if constexpr (F::kBits < 16) shuffle_tile<F>(a, tile, step, lane);
      });
  }
}

}  // namespace

int32_t record_bytes(Format format) {
  switch (format) {
#define MARTLET_CUDA_FORMAT(name) \
  case Format::name:              \
    return Record<name>::kBytes;
#include "backend/cuda/formats/formats.def"
#undef MARTLET_CUDA_FORMAT
    default:
      return Record<Halves>::kBytes;
  }
}

int64_t segment_bytes(Format format, int64_t rows, int64_t columns) {
  return (rows + kTileRows - 1) / kTileRows * ((columns + kTileColumns - 1) / kTileColumns) * record_bytes(format);
}

void shuffle(Stream& stream, const ShuffleArguments& a) {
  const int64_t items = int64_t{a.tiles} * a.segment.steps;
  launch(stream, shuffle_kernel, static_cast<unsigned>((items + kWarps - 1) / kWarps), kWarps * 32, 0, a);
}

}  // namespace martlet::cuda
