#pragma once

// How activation rows lie in memory: blocks in which codes, scale and sums stand together, so that a kernel follows one
// pointer a token. Codes are -127..127; x is about scale * code. A scale is NaN where a value was not finite.

#include <cstdint>

namespace martlet::cpu {

struct Activation32 {  // ActivationKind::q8_32
  int8_t codes[32];
  float scale;
  float scaled_sum;  // scale * sum, for formats with a minimum
  int32_t sum;       // of the codes, for formats whose codes are offset
  int32_t unused;    // keeps blocks at multiples of 16 bytes
};
static_assert(sizeof(Activation32) == 48);

struct alignas(64) Activation256 {  // ActivationKind::q8_256
  int8_t codes[256];
  float scale;
  int16_t sums_16[16];  // of sixteen codes each
  int16_t sums_32[8];
};
static_assert(sizeof(Activation256) == 320);

}  // namespace martlet::cpu
