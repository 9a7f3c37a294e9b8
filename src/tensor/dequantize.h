#pragma once

#include <span>

#include "tensor/tensor_view.h"

namespace martlet {

// Writes row `row` of `tensor` as f32 into `out` (tensor.columns() values). The scalar reference of every format that
// computes; asserts that info(tensor.format).computes.
void dequantize_row(const TensorView& tensor, int64_t row, std::span<float> out);

// IEEE half and bfloat16, bit exact, subnormals included.
float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);  // round to nearest even
inline float bfloat16_to_float(uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
}

}  // namespace martlet
