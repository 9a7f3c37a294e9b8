#pragma once

// Programmatic dependent launch: a kernel starts while the one before it drains, fetches what does not depend on it,
// and then waits. Every kernel of a step calls wait_for_input() before it touches memory of a step: only then does
// "the kernel before is complete" hold along the whole chain.

#include <cuda_runtime.h>

#include <utility>

#include "backend/cuda/kernels/stream.h"

namespace martlet::cuda {

__device__ inline void wait_for_input() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ inline void start_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

template <class... Parameters, class... Arguments>
void launch(Stream& stream, void (*kernel)(Parameters...), dim3 grid, unsigned threads, size_t shared_bytes,
            Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0) return;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream.handle;
  config.attrs = &attribute;
  config.numAttrs = stream.dependent ? 1 : 0;
  stream.check(cudaLaunchKernelEx(&config, kernel, Parameters(std::forward<Arguments>(arguments))...));
}

}  // namespace martlet::cuda
