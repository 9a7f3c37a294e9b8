#pragma once

// NEON with the 8-bit matrix multiplication extension: smmla multiplies two rows with two tokens, eight columns at
// once.

#include "backend/cpu/isa/neon.h"

namespace martlet::cpu {
namespace {

struct NeonI8mm : Neon {
  // Sums of four rows and two tokens, as smmla leaves them: rows 0 and 1, rows 2 and 3, the two tokens side by side.
  struct TokenPair {
    Int upper, lower;
  };
  MARTLET_INLINE static TokenPair pair_zero() { return {zero_int(), zero_int()}; }
  // Two columns of codes, that is eight a row, times the eight codes at x0 and x1.
  MARTLET_INLINE static TokenPair pair_dot(TokenPair sum, Int column, Int next, const int8_t* x0, const int8_t* x1) {
    int8x16_t x = vcombine_s8(vld1_s8(x0), vld1_s8(x1));
    return {vmmlaq_s32(sum.upper, as_bytes(vzip1q_s32(column, next)), x),
            vmmlaq_s32(sum.lower, as_bytes(vzip2q_s32(column, next)), x)};
  }
  MARTLET_INLINE static Int pair_first(TokenPair sum) { return vuzp1q_s32(sum.upper, sum.lower); }
  MARTLET_INLINE static Int pair_second(TokenPair sum) { return vuzp2q_s32(sum.upper, sum.lower); }
};

}  // namespace
}  // namespace martlet::cpu
