#pragma once

#include "backend/cpu/formats/unpacker.h"

namespace martlet::cpu {
namespace {

// The first sixteen bytes of Q4_K and Q5_K: { half d, dmin; eight 6-bit factors and eight 6-bit minimums[12] }.
// Bytes 0..3 hold factors 0..3, bytes 4..7 minimums 0..3, each with two upper bits of the factor or minimum four
// further on, whose low nibbles are in bytes 8..11: factor low, minimum high.
template <class V>
MARTLET_INLINE void scales_k4(const typename V::Rows& rows, Scales256<V>& out) {
  typename V::Int c[4];
  rows.columns(0, c);
  const typename V::Int six = V::broadcast_byte(0x3f), upper = V::broadcast_byte(0x30);
  out.factors[0] = V::bit_and(c[1], six);
  out.minimums[0] = V::bit_and(c[2], six);
  out.factors[1] = V::bit_or(low_nibbles<V>(c[3]), V::bit_and(V::right(c[1], 2), upper));
  out.minimums[1] = V::bit_or(high_nibbles<V>(c[3]), V::bit_and(V::right(c[2], 2), upper));
  out.scale = V::low_half(c[0]);
  out.minimum = V::high_half(c[0]);
}

// The eight factors of one row's block as bytes, in each half of the vector.
template <class V>
MARTLET_INLINE typename V::Int factors_k4_along(const std::byte* block) {
  constexpr int8_t none = -128;  // looks up zero
  static constexpr int8_t low[16] = {4, 5, 6, 7, 12, 13, 14, 15, none, none, none, none, none, none, none, none};
  static constexpr int8_t high[16] = {none, none, none, none, 4,    5,    6,    7,
                                      none, none, none, none, none, none, none, none};
  static constexpr int8_t bits[16] = {63, 63, 63, 63, 15, 15, 15, 15};
  int8_t head[16];
  std::memcpy(head, block, sizeof head);
  const typename V::Table bytes = V::table(head);
  return V::bit_or(V::bit_and(V::lookup(bytes, V::table(low)), V::table(bits)),
                   V::bit_and(V::right(V::lookup(bytes, V::table(high)), 2), V::broadcast_byte(0x30)));
}

// Q4_K and Q5_K: sub-blocks of 32, two of them in each part.
template <int Bytes, Codes Range>
struct BlocksK4 : Blocks256<Bytes, Range, 0, true, 32, 4> {
  template <class V>
  MARTLET_INLINE static typename V::Int factors_along(const std::byte* block) {
    return factors_k4_along<V>(block);
  }
  template <class V, int J>
  MARTLET_INLINE static typename V::Int factor_along(typename V::Int factors) {
    return V::template repeat_byte<J>(factors);
  }
  MARTLET_INLINE static int sub_block(int part, int i) { return 2 * part + i; }
};

}  // namespace
}  // namespace martlet::cpu
