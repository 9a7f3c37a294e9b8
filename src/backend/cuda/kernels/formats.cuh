#pragma once

#include "backend/cuda/kernels/unpack.cuh"

namespace martlet::cuda {

// Calls f(F{}) with the format's layout. Whole blocks take the same branch.
template <class Function>
__device__ inline void with_format(Format format, Function&& f) {
  switch (format) {
#define MARTLET_CUDA_FORMAT(name) \
  case Format::name:              \
    return f(name{});
#include "backend/cuda/formats/formats.def"
#undef MARTLET_CUDA_FORMAT
    default:
      return f(Halves{});
  }
}

}  // namespace martlet::cuda
