#pragma once

#include "backend/cpu/isa/level.h"

namespace martlet::cpu {

// Multiplications and additions of 8-bit values, in 10^9 a second, that `threads` threads do together with this level's
// instructions when they neither unpack nor load anything new: what products of weights and activations are measured
// against. Takes a twentieth of a second.
double measure_peak(const Level& level, int threads);

}  // namespace martlet::cpu
