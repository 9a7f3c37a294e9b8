#include "backend/cuda/kernels/formats.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/linear.h"

namespace martlet::cuda {
namespace {

template <class F>
__device__ void unpack_tile(const DeviceSegment& segment, int first, int count, __half* out) {
  const int lane = threadIdx.x % 32;
  const int64_t item = int64_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32;
  const int tile = first / kTileRows + static_cast<int>(item / segment.steps);
  const int step = static_cast<int>(item % segment.steps);
  if (tile * kTileRows >= first + count) return;
  uint32_t w[16];
  unpack(load_tile<F>(place_of<F>(segment, tile, step), segment.steps, lane), w);
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const int at = tile * kTileRows + lane / 4 + 8 * row - first;
    if (at >= count) continue;
    uint4* to = reinterpret_cast<uint4*>(out + (int64_t{at} * segment.steps + step) * kTileColumns + lane % 4 * 16);
    to[0] = make_uint4(w[8 * row], w[8 * row + 1], w[8 * row + 2], w[8 * row + 3]);
    to[1] = make_uint4(w[8 * row + 4], w[8 * row + 5], w[8 * row + 6], w[8 * row + 7]);
  }
}

__global__ void unpack_kernel(const __grid_constant__ DeviceSegment segment, int first, int count, __half* out) {
  start_next();
  wait_for_input();
  with_layout(segment.format, [&]<class F>(F) { unpack_tile<F>(segment, first, count, out); });
}

}  // namespace

void unpack_rows(Stream& stream, const DeviceSegment& segment, int32_t first, int32_t count, __half* out) {
  constexpr int kWarps = 8;
  const int64_t items = int64_t{(count + kTileRows - 1) / kTileRows} * segment.steps;
  launch(stream, unpack_kernel, static_cast<unsigned>((items + kWarps - 1) / kWarps), kWarps * 32, 0, segment, first,
         count, out);
}

}  // namespace martlet::cuda
