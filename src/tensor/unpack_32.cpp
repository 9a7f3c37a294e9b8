// Plain values and the formats of 32 elements a block.

#include <bit>
#include <cstring>

#include "tensor/dequantize.h"
#include "tensor/unpack.h"

namespace martlet {
namespace {

// Four-bit code of element i (0..31).
int nibble(const uint8_t (&codes)[16], int i) {
  return i < 16 ? codes[i] & 15 : codes[i - 16] >> 4;
}

// Five-bit code: the nibble and the element's bit of `high`.
int five_bits(const uint8_t (&codes)[16], const uint8_t (&high)[4], int i) {
  return nibble(codes, i) | (high[i / 8] >> i % 8 & 1) << 4;
}

// Half of 2^(exponent - 127), because the codes count in halves. Exponents 0 and 1 give subnormal floats.
float half_of_power(uint8_t exponent) {
  return std::bit_cast<float>(exponent < 2 ? 0x00200000u << exponent : (exponent - 1u) << 23);
}

}  // namespace

void unpack(const BlockF32& block, float* out) {
  *out = block.value;
}
void unpack(const BlockF16& block, float* out) {
  *out = half_to_float(block.value);
}
void unpack(const BlockBF16& block, float* out) {
  *out = bfloat16_to_float(block.value);
}

void unpack(const BlockQ4_0& block, float* out) {
  const float scale = half_to_float(block.scale);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(nibble(block.codes, i) - 8);
}

void unpack(const BlockQ4_1& block, float* out) {
  const float scale = half_to_float(block.scale), minimum = half_to_float(block.minimum);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(nibble(block.codes, i)) + minimum;
}

void unpack(const BlockQ5_0& block, float* out) {
  const float scale = half_to_float(block.scale);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(five_bits(block.codes, block.high, i) - 16);
}

void unpack(const BlockQ5_1& block, float* out) {
  const float scale = half_to_float(block.scale), minimum = half_to_float(block.minimum);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(five_bits(block.codes, block.high, i)) + minimum;
}

void unpack(const BlockQ8_0& block, float* out) {
  const float scale = half_to_float(block.scale);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(block.codes[i]);
}

void unpack(const BlockIQ4_NL& block, float* out) {
  const float scale = half_to_float(block.scale);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(kIq4Values[nibble(block.codes, i)]);
}

void unpack(const BlockMXFP4& block, float* out) {
  const float scale = half_of_power(block.exponent);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(kE2m1Doubled[nibble(block.codes, i)]);
}

}  // namespace martlet
