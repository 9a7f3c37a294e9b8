#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/probe.h"

namespace martlet::cuda {
namespace {

constexpr int kThreads = 512, kLoads = 8;  // of a block; under way of each thread

__global__ void fill_kernel(uint32_t* data, int64_t count) {
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += int64_t{gridDim.x} * kThreads) {
    uint32_t mixed = static_cast<uint32_t>(i) * 0x9E3779B9u;
    mixed = (mixed ^ (mixed >> 15)) * 0x85EBCA6Bu;
    data[i] = ((mixed ^ (mixed >> 13)) & 0x83FF83FFu) | 0x38003800u;
  }
}

// A block reads kThreads * kLoads words of sixteen bytes. No half that fill_with_halves() leaves is zero, so that
// nothing is ever written, which the compiler cannot know.
__global__ void __launch_bounds__(kThreads) read_kernel(const uint4* data, int64_t count) {
  const int64_t first = int64_t{blockIdx.x} * kThreads * kLoads + threadIdx.x;
  uint4 words[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int64_t at = first + i * kThreads;
    words[i] = at < count ? __ldcs(data + at) : make_uint4(1, 1, 1, 1);
  }
  uint32_t any = 0;
#pragma unroll
  for (int i = 0; i < kLoads; ++i) any |= words[i].x | words[i].y | words[i].z | words[i].w;
  if (any == 0) const_cast<uint4*>(data)[first] = words[0];
}

}  // namespace

void fill_with_halves(Stream& stream, uint32_t* data, int64_t bytes) {
  launch(stream, fill_kernel, 4096, kThreads, 0, data, bytes / 4);
}

void read_all(Stream& stream, const std::byte* data, int64_t bytes) {
  const int64_t count = bytes / 16, each = kThreads * kLoads;
  launch(stream, read_kernel, static_cast<unsigned>((count + each - 1) / each), kThreads, 0,
         reinterpret_cast<const uint4*>(data), count);
}

}  // namespace martlet::cuda
