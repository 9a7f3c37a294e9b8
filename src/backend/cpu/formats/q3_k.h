#pragma once

#include "backend/cpu/formats/unpacker.h"

namespace martlet::cpu {
namespace {

// { third bits[32]; pairs of bits[64]; sixteen 6-bit factors[12]; half d }, sub-blocks of 16: d * (factor - 32) * (code
// - 4). Pairs of bits lie as in Q2_K; bit 4h + i of third-bit byte l belongs to column 128h + 32i + l.
template <>
struct Unpacker<Format::Q3_K> : Blocks256<110, Codes::u4, 4, false, 16, 4> {
  template <class V>
  struct State {
    typename V::Int raw[4], third[4];  // third: shifted so that bit i belongs to sub-block i of the part

    MARTLET_INLINE typename V::Int last() const { return raw[3]; }
    template <class I, class K>
    MARTLET_INLINE typename V::Int code(I, K) const {
      typename V::Int low = V::bit_and(V::right(raw[K::value], 2 * I::value), V::broadcast_byte(3));
      typename V::Int bit = V::bit_and(V::right(third[K::value], I::value), V::broadcast_byte(1));
      return V::bit_or(low, V::left(bit, 2));
    }
  };

  // Factors j = 0..7 have their low four bits in the low nibbles of bytes 0..7, factors 8..15 in the high ones; byte 8
  // + b holds the upper two bits of factors b, b + 4, b + 8 and b + 12.
  template <class V>
  MARTLET_INLINE static void scales(const typename V::Rows& rows, Scales256<V>& out, State<V>&) {
    typename V::Int c[4];
    rows.columns(94, c);  // ends with the block; the factors start two bytes later
    typename V::Int packed[3];
    unroll<3>([&](auto j) MARTLET_INLINED { packed[j] = V::bit_or(V::right(c[j], 16), V::left(c[j + 1], 16)); });
    unroll<4>([&](auto j) MARTLET_INLINED {
      typename V::Int low = j < 2 ? low_nibbles<V>(packed[j % 2]) : high_nibbles<V>(packed[j % 2]);
      typename V::Int high = V::bit_and(V::right(packed[2], 2 * j), V::broadcast_byte(3));
      out.factors[j] = V::sub_bytes(V::bit_or(low, V::left(high, 4)), V::broadcast_byte(32));
    });
    out.scale = V::high_half(c[3]);
  }
  template <class V>
  MARTLET_INLINE static void load(const typename V::Rows& rows, int part, State<V>& state) {
    rows.columns(16 * (part % 2), state.third);
    unroll<4>([&](auto k) MARTLET_INLINED { state.third[k] = V::right(state.third[k], 4 * (part / 2)); });
    rows.columns(32 + 16 * part, state.raw);
  }
  MARTLET_INLINE static int sub_block(int part, int i) { return part / 2 * 8 + 2 * i + part % 2; }
};

}  // namespace
}  // namespace martlet::cpu
