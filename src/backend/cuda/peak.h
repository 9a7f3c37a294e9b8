#pragma once

#include "base/error.h"

namespace martlet {

// What the first visible device can do at most, each the best of ten passes. Zero: it has no room for the measurement.
struct CudaPeak {
  double read_gb_s = 0;  // how fast it reads its memory, 10^9 bytes a second
  double half_gops = 0;  // multiplications and additions of products of halves, summed as f32: 10^9 a second
};

// Takes a gibibyte of the device and a tenth of a second, given back at the end. Errors: as make_cuda_backend().
Result<CudaPeak> measure_cuda_peak();

}  // namespace martlet
