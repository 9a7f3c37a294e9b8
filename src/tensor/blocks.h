#pragma once

// The storage formats as they lie in a file: little-endian, without padding. Codes of one block share its scales.
// `scale` and `minimum` fields of type uint16_t hold IEEE halves.

#include <bit>
#include <cstdint>

namespace martlet {

static_assert(std::endian::native == std::endian::little, "tensor data is little-endian and used where it lies");

struct BlockF32 {
  float value;
};
struct BlockF16 {
  uint16_t value;
};
struct BlockBF16 {
  uint16_t value;
};

// 32 elements. Four-bit codes: byte i holds element i in its low and element i + 16 in its high half.
struct BlockQ4_0 {  // scale * (code - 8)
  uint16_t scale;
  uint8_t codes[16];
};
struct BlockQ4_1 {  // scale * code + minimum
  uint16_t scale, minimum;
  uint8_t codes[16];
};
struct BlockQ5_0 {  // scale * (code - 16); bit i of `high` is the fifth bit of element i
  uint16_t scale;
  uint8_t high[4];
  uint8_t codes[16];
};
struct BlockQ5_1 {  // scale * code + minimum
  uint16_t scale, minimum;
  uint8_t high[4];
  uint8_t codes[16];
};
struct BlockQ8_0 {
  uint16_t scale;
  int8_t codes[32];
};
struct BlockIQ4_NL {  // scale * kIq4Values[code]
  uint16_t scale;
  uint8_t codes[16];
};
struct BlockMXFP4 {  // OCP microscaling: 2^(exponent - 127) * E2M1(code)
  uint8_t exponent;
  uint8_t codes[16];
};

// 256 elements in groups of 16 (Q2_K, Q3_K, Q6_K) or 32 (Q4_K, Q5_K, IQ4_XS) with small integer scales of their own.
struct BlockQ2_K {  // scale * low(scales[g]) * code - minimum * high(scales[g])
  uint8_t scales[16];
  uint8_t codes[64];  // two bits each: byte 32h + i holds elements 128h + 32j + i at bit 2j
  uint16_t scale, minimum;
};
struct BlockQ3_K {     // scale * (scales[g] - 32) * (code - 4)
  uint8_t high[32];    // third bit of element 32j + i: bit j of byte i
  uint8_t codes[64];   // as in Q2_K
  uint8_t scales[12];  // sixteen of 6 bits: low halves in bytes 0-7, upper two bits in bytes 8-11
  uint16_t scale;
};
struct BlockQ4_K {  // scale * scales[g] * code - minimum * minimums[g]
  uint16_t scale, minimum;
  uint8_t scales[12];  // eight scales and eight minimums of 6 bits, see group_scales()
  uint8_t codes[128];  // byte 32p + i: group 2p low, group 2p + 1 high
};
struct BlockQ5_K {  // as Q4_K, with a fifth bit
  uint16_t scale, minimum;
  uint8_t scales[12];
  uint8_t high[32];  // bit g of byte i: fifth bit of element 32g + i
  uint8_t codes[128];
};
struct BlockQ6_K {   // scale * scales[g] * (code - 32)
  uint8_t low[128];  // byte 64h + i: element 128h + i low, element 128h + 64 + i high
  uint8_t high[64];  // upper two bits, packed as the codes of Q2_K
  int8_t scales[16];
  uint16_t scale;
};
struct BlockIQ4_XS {  // scale * (group scale - 32) * kIq4Values[code]
  uint16_t scale;
  uint16_t scales_high;   // two bits a group
  uint8_t scales_low[4];  // four bits a group
  uint8_t codes[128];     // each group of 32 as in Q4_0
};

// The sixteen levels of IQ4_NL and IQ4_XS, and twice the sixteen values of E2M1 (so that they are integers).
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
inline constexpr int8_t kE2m1Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

struct GroupScale {
  uint8_t scale, minimum;
};

// Scale and minimum of group 0..7 of Q4_K and Q5_K. Groups 0-3 have theirs in the low six bits of bytes g and g + 4;
// groups 4-7 have four bits in byte g + 4 and the two above them in the top of the bytes of group g - 4.
constexpr GroupScale group_scales(const uint8_t (&packed)[12], int group) {
  if (group < 4) return {static_cast<uint8_t>(packed[group] & 63), static_cast<uint8_t>(packed[group + 4] & 63)};
  return {static_cast<uint8_t>((packed[group + 4] & 15) | (packed[group - 4] >> 6 << 4)),
          static_cast<uint8_t>((packed[group + 4] >> 4) | (packed[group] >> 6 << 4))};
}

}  // namespace martlet
