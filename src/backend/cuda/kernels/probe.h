#pragma once

// What limits of a device are measured with.

#include <cstddef>
#include <cstdint>

#include "backend/cuda/kernels/stream.h"

namespace martlet::cuda {

// Halves of random sign between 1/2 and 1. `bytes`: a multiple of four.
void fill_with_halves(Stream& stream, uint32_t* data, int64_t bytes);
// Reads every byte once. `bytes`: a multiple of 16; the memory must hold what fill_with_halves() left.
void read_all(Stream& stream, const std::byte* data, int64_t bytes);

}  // namespace martlet::cuda
