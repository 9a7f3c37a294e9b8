// The formats of 256 elements a block.

#include "tensor/dequantize.h"
#include "tensor/unpack.h"

namespace martlet {
namespace {

constexpr int kElements = 256;

// Two bits of element i: bytes of 32 elements, four such rows a half block.
int two_bits(const uint8_t (&codes)[64], int i) {
  return codes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

// Four-bit code of element i where two groups of 32 share 32 bytes.
int paired_nibble(const uint8_t (&codes)[128], int i) {
  const int byte = codes[i / 64 * 32 + i % 32];
  return i / 32 % 2 ? byte >> 4 : byte & 15;
}

}  // namespace

void unpack(const BlockQ2_K& block, float* out) {
  const float scale = half_to_float(block.scale), minimum = half_to_float(block.minimum);
  for (int i = 0; i < kElements; ++i) {
    const int group = block.scales[i / 16];
    const float factor = scale * static_cast<float>(group & 15), offset = minimum * static_cast<float>(group >> 4);
    out[i] = factor * static_cast<float>(two_bits(block.codes, i)) - offset;
  }
}

void unpack(const BlockQ3_K& block, float* out) {
  const float scale = half_to_float(block.scale);
  float factors[16];
  for (int g = 0; g < 16; ++g) {
    const int low = g < 8 ? block.scales[g] & 15 : block.scales[g - 8] >> 4;
    const int high = block.scales[8 + g % 4] >> (g / 4 * 2) & 3;
    factors[g] = scale * static_cast<float>((low | high << 4) - 32);
  }
  for (int i = 0; i < kElements; ++i) {
    const int code = two_bits(block.codes, i) | (block.high[i % 32] >> i / 32 & 1) << 2;
    out[i] = factors[i / 16] * static_cast<float>(code - 4);
  }
}

void unpack(const BlockQ4_K& block, float* out) {
  const float scale = half_to_float(block.scale), minimum = half_to_float(block.minimum);
  for (int g = 0; g < kElements / 32; ++g) {
    const GroupScale group = group_scales(block.scales, g);
    const float factor = scale * static_cast<float>(group.scale), offset = minimum * static_cast<float>(group.minimum);
    for (int i = 32 * g; i < 32 * g + 32; ++i) {
      out[i] = factor * static_cast<float>(paired_nibble(block.codes, i)) - offset;
    }
  }
}

void unpack(const BlockQ5_K& block, float* out) {
  const float scale = half_to_float(block.scale), minimum = half_to_float(block.minimum);
  for (int g = 0; g < kElements / 32; ++g) {
    const GroupScale group = group_scales(block.scales, g);
    const float factor = scale * static_cast<float>(group.scale), offset = minimum * static_cast<float>(group.minimum);
    for (int i = 32 * g; i < 32 * g + 32; ++i) {
      const int code = paired_nibble(block.codes, i) | (block.high[i % 32] >> g & 1) << 4;
      out[i] = factor * static_cast<float>(code) - offset;
    }
  }
}

void unpack(const BlockQ6_K& block, float* out) {
  const float scale = half_to_float(block.scale);
  for (int i = 0; i < kElements; ++i) {
    const int byte = block.low[i / 128 * 64 + i % 64];
    const int code = (i % 128 < 64 ? byte & 15 : byte >> 4) | two_bits(block.high, i) << 4;
    out[i] = scale * static_cast<float>(block.scales[i / 16]) * static_cast<float>(code - 32);
  }
}

void unpack(const BlockIQ4_XS& block, float* out) {
  const float scale = half_to_float(block.scale);
  for (int g = 0; g < kElements / 32; ++g) {
    const int low = block.scales_low[g / 2] >> (g % 2 * 4) & 15, high = block.scales_high >> (2 * g) & 3;
    const float factor = scale * static_cast<float>((low | high << 4) - 32);
    for (int i = 0; i < 16; ++i) {
      const int byte = block.codes[16 * g + i];
      out[32 * g + i] = factor * static_cast<float>(kIq4Values[byte & 15]);
      out[32 * g + 16 + i] = factor * static_cast<float>(kIq4Values[byte >> 4]);
    }
  }
}

}  // namespace martlet
