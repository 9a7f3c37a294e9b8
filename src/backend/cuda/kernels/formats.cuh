#pragma once

#include "backend/cuda/kernels/unpack.cuh"

namespace martlet::cuda {

// Calls f(F{}) with a format that lies on the device as `format` does: those that differ in the file alone share code.
// Whole blocks take the same branch.
template <class Function>
__device__ inline void with_layout(Format format, Function&& f) {
  switch (format) {
    case Format::Q4_0:
      return f(Q4_0{});
    case Format::Q4_1:
    case Format::Q4_K:
      return f(Q4_K{});
    case Format::Q5_0:
      return f(Q5_0{});
    case Format::Q5_1:
    case Format::Q5_K:
      return f(Q5_K{});
    case Format::Q8_0:
      return f(Q8_0{});
    case Format::Q2_K:
      return f(Q2_K{});
    case Format::Q3_K:
      return f(Q3_K{});
    case Format::Q6_K:
      return f(Q6_K{});
    case Format::IQ4_NL:
    case Format::IQ4_XS:
      return f(IQ4_XS{});
    case Format::MXFP4:
      return f(MXFP4{});
    default:
      return f(Halves{});
  }
}

// Calls f(F{}) with the format itself.
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
