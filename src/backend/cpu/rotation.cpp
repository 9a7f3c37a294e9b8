#include "backend/cpu/rotation.h"

#include <cmath>

namespace martlet::cpu {

Rotation Rotation::of(const Attention& attention, std::span<const float> frequencies) {
  return {attention.rope_frequencies,
          attention.rope_magnitude,
          attention.rope_interleaved,
          2 * static_cast<int64_t>(frequencies.size()),
          {}};
}

void Rotation::fill_row(int64_t row, int32_t position, std::span<const float> frequencies) const {
  float *cosine = cosines(row), *sine = sines(row);
  const auto pairs = static_cast<int64_t>(frequencies.size());
  for (int64_t p = 0; p < pairs; ++p) {
    const double angle = double{frequencies[static_cast<size_t>(p)]} * position;
    const int64_t first = interleaved ? 2 * p : p, second = interleaved ? 2 * p + 1 : p + pairs;
    cosine[first] = cosine[second] = static_cast<float>(std::cos(angle) * magnitude);
    sine[second] = static_cast<float>(std::sin(angle) * magnitude);
    sine[first] = -sine[second];
  }
}

}  // namespace martlet::cpu
