#pragma once

// Row-wise operators, one set for each instruction level, with the same bits at every one.

#include <cstdint>

namespace martlet::cpu {

struct VectorKernels {
  // out = x / sqrt(mean of squares + epsilon) * weight (Zhang and Sennrich 2019). `out` may be `x`.
  void (*rms_norm)(const float* x, const float* weight, float epsilon, int64_t size, float* out);
  // out = gate / (1 + exp(-gate)) * up
  void (*silu_gated)(const float* gate, const float* up, int64_t size, float* out);
  // Rotary embedding in place on `size` values, half as many pairs: x[i] * cosines[i] + x[partner of i] * sines[i],
  // where the partner is the neighbour or, `halves`, the value half of `size` away. The sines carry the sign.
  void (*rotate)(float* x, const float* cosines, const float* sines, int64_t size, bool halves);
  void (*scale)(float* x, float factor, int64_t size);
};

}  // namespace martlet::cpu
