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

// Waits for all threads of the cluster; what they wrote to shared memory is then seen by all.
__device__ inline void meet_in_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// Where the block `rank` of the cluster has what this one has at `shared`.
template <class T>
__device__ inline const T* in_cluster(const T* shared, [[maybe_unused]] unsigned rank) {
#if __CUDA_ARCH__ >= 900
  asm("mapa.u64 %0, %0, %1;" : "+l"(shared) : "r"(rank));
#endif
  return shared;
}

// Clusters of `cluster` blocks are of compute capability 9.0, as is a dependent stream.
template <class... Parameters, class... Arguments>
void launch_clusters(Stream& stream, unsigned cluster, void (*kernel)(Parameters...), dim3 grid, unsigned threads,
                     size_t shared_bytes, Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0) return;
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {cluster, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream.handle;
  config.attrs = attributes;
  config.numAttrs = !stream.dependent ? 0 : cluster == 1 ? 1 : 2;
  stream.check(cudaLaunchKernelEx(&config, kernel, Parameters(std::forward<Arguments>(arguments))...));
}

template <class... Parameters, class... Arguments>
void launch(Stream& stream, void (*kernel)(Parameters...), dim3 grid, unsigned threads, size_t shared_bytes,
            Arguments&&... arguments) {
  launch_clusters(stream, 1, kernel, grid, threads, shared_bytes, std::forward<Arguments>(arguments)...);
}

}  // namespace martlet::cuda
