#pragma once

// Where kernels are launched, and what went wrong first.

#include <cuda_runtime_api.h>

namespace martlet::cuda {

struct Stream {
  cudaStream_t handle = nullptr;
  bool dependent = false;  // the device starts a kernel while the one before it drains (compute capability 9.0)
  cudaError_t error = cudaSuccess;

  void check(cudaError_t result) {
    if (error == cudaSuccess) error = result;
  }
};

}  // namespace martlet::cuda
