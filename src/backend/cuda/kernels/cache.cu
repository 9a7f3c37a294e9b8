// Rotation angles of a step, and copies of pages.

#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/launch.cuh"

namespace martlet::cuda {
namespace {

__global__ void rotations_kernel(const int32_t* positions, const float* frequencies, int pairs, float magnitude,
                                 float2* turns) {
  start_next();
  wait_for_input();
  for (int p = threadIdx.x; p < pairs; p += blockDim.x) {
    // In double: a float angle of a late position is off by more than a hundredth.
    double sine, cosine;
    sincos(static_cast<double>(frequencies[p]) * positions[blockIdx.x], &sine, &cosine);
    turns[int64_t{blockIdx.x} * pairs + p] =
        make_float2(static_cast<float>(cosine) * magnitude, static_cast<float>(sine) * magnitude);
  }
}

__global__ void copy_kernel(const __half* from, __half* to, int tokens, int key_size, int value_size) {
  wait_for_input();
  const int64_t block = int64_t{blockIdx.x} * kPageTokens * (key_size + value_size);
  for (int i = threadIdx.x; i < tokens * key_size; i += blockDim.x) to[block + i] = from[block + i];
  for (int i = threadIdx.x; i < tokens * value_size; i += blockDim.x) {
    const int64_t at = block + kPageTokens * (key_size + i / tokens) + i % tokens;
    to[at] = from[at];
  }
}

}  // namespace

void rotations(Stream& stream, const int32_t* positions, const float* frequencies, int32_t pairs, float magnitude,
               int32_t rows, float2* turns) {
  launch(stream, rotations_kernel, static_cast<unsigned>(rows), 128, 0, positions, frequencies, pairs, magnitude,
         turns);
}

void copy_page(Stream& stream, const __half* from, __half* to, int32_t tokens, int32_t key_size, int32_t value_size,
               int32_t blocks) {
  launch(stream, copy_kernel, static_cast<unsigned>(blocks), 256, 0, from, to, tokens, key_size, value_size);
}

}  // namespace martlet::cuda
