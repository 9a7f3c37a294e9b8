#pragma once

#include <span>
#include <vector>

#include "model/hyperparameters.h"

namespace martlet {

// Radians a position for each rotated pair, h.rotated / 2 of them: base^(-2i / rotated), scaled as the model says.
// `factors`: divisors for each pair (Llama 3 stores its scaling as the tensor rope_freqs.weight), or empty.
std::vector<float> rope_frequencies(const Hyperparameters& h, std::span<const float> factors);

// What sine and cosine are multiplied by: 1, or YaRN's 0.1 ln(factor) + 1 times the model's own attention factor.
float rope_magnitude(const RopeScaling& scaling);

}  // namespace martlet
