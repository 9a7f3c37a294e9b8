#pragma once

// Four floats at a time in plain C++ (vectors of the compiler, 16 bytes on every processor), and sums of
// exponentials over a row of logits.

#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

namespace martlet {

inline constexpr size_t kLanes = 4;
using Lanes = float __attribute__((vector_size(16)));
using LaneMask = int32_t __attribute__((vector_size(16)));

inline Lanes broadcast(float value) {
  return Lanes{} + value;
}

inline Lanes load_lanes(const float* from) {
  Lanes out;
  std::memcpy(&out, from, sizeof out);
  return out;
}

inline float largest_lane(Lanes x) {
  float out = x[0];
  for (size_t i = 1; i < kLanes; ++i) out = x[i] > out ? x[i] : out;
  return out;
}

inline bool any(LaneMask mask) {
  int32_t out = 0;
  for (size_t i = 0; i < kLanes; ++i) out |= mask[i];
  return out != 0;
}

// exp(x) for x <= 0, relative error below 3e-7; 0 below -87. 2^n * p(r): Cody and Waite's reduction, Taylor to r^6.
inline Lanes exponential(Lanes x) {
  const Lanes rounder = broadcast(0x1.8p23f);
  const Lanes bounded = x < -87.0f ? broadcast(-87.0f) : x;
  const Lanes shifted = bounded * 1.44269504f + rounder;
  const Lanes n = shifted - rounder;
  const Lanes r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
  Lanes p = broadcast(1.0f / 720);
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;

  const LaneMask bits = (__builtin_convertvector(n, LaneMask) + 127) << 23;
  Lanes scale;
  std::memcpy(&scale, &bits, sizeof scale);
  const Lanes out = p * scale;
  return x < -87.0f ? Lanes{} : out;
}

// Sum of exp((x - largest) * factor), at most a few hundred values; what is missing from four at the end counts as
// -infinity. A device that does the same operations in this order gets the same bits.
inline double sum_of_exponentials(std::span<const float> values, float largest, float factor) {
  Lanes sum = {};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) sum += exponential((load_lanes(&values[i]) - largest) * factor);
  if (i < values.size()) {
    Lanes rest = broadcast(-std::numeric_limits<float>::infinity());
    std::memcpy(&rest, &values[i], (values.size() - i) * sizeof(float));
    sum += exponential((rest - largest) * factor);
  }
  double out = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) out += sum[lane];
  return out;
}

}  // namespace martlet
