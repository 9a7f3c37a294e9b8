#include <bit>

#include "tensor/dequantize.h"

namespace martlet {

// Half: 1 sign, 5 exponent (bias 15), 10 fraction bits. Float: 1, 8 (bias 127), 23.
float half_to_float(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // subnormal or zero: exact in float
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00 | (magnitude >> 13 & 0x1ff);  // NaN stays a (quiet) NaN
  if (magnitude >= 0x477ff000u) return sign | 0x7c00;                             // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {
    // Below 2^-14: adding 0.5 aligns the last half bit with the last float bit, so the addition itself rounds to even.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(aligned) - std::bit_cast<uint32_t>(0.5f));
  }
  const uint32_t to_even = 0xfffu + (magnitude >> 13 & 1);
  return sign | static_cast<uint16_t>((magnitude + to_even - (112u << 23)) >> 13);
}

}  // namespace martlet
