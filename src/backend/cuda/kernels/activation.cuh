#pragma once

namespace martlet::cuda {

__device__ inline float silu(float x) {
  return x / (1 + __expf(-x));
}

}  // namespace martlet::cuda
