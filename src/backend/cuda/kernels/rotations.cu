// Rotation angles of a step.

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

}  // namespace

void rotations(Stream& stream, const int32_t* positions, const float* frequencies, int32_t pairs, float magnitude,
               int32_t rows, float2* turns) {
  launch(stream, rotations_kernel, static_cast<unsigned>(rows), 128, 0, positions, frequencies, pairs, magnitude,
         turns);
}

}  // namespace martlet::cuda
