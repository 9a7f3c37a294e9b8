#pragma once

#include "backend/cpu/formats/unpacker.h"

namespace martlet::cpu {
namespace {

// { factor | minimum << 4 [16]; pairs of bits[64]; half d, dmin }, sub-blocks of 16: d * factor * code - dmin *
// minimum. Half h of the block has 32 bytes; bits 2i, 2i+1 of its byte l belong to column 128h + 32i + l.
template <>
struct Unpacker<Format::Q2_K> : Blocks256<84, Codes::u4, 0, true, 16, 4> {
  template <class V>
  struct State {
    typename V::Int raw[4];

    MARTLET_INLINE typename V::Int last() const { return raw[3]; }
    template <class I, class K>
    MARTLET_INLINE typename V::Int code(I, K) const {
      return V::bit_and(V::right(raw[K::value], 2 * I::value), V::broadcast_byte(3));
    }
  };

  template <class V>
  MARTLET_INLINE static void scales(const typename V::Rows& rows, Scales256<V>& out, State<V>&) {
    typename V::Int c[4], d = rows.words(80);
    rows.columns(0, c);
    unroll<4>([&](auto j) MARTLET_INLINED {
      out.factors[j] = low_nibbles<V>(c[j]);
      out.minimums[j] = high_nibbles<V>(c[j]);
    });
    out.scale = V::low_half(d);
    out.minimum = V::high_half(d);
  }
  template <class V>
  MARTLET_INLINE static void load(const typename V::Rows& rows, int part, State<V>& state) {
    rows.columns(16 + 16 * part, state.raw);
  }
  MARTLET_INLINE static int sub_block(int part, int i) { return part / 2 * 8 + 2 * i + part % 2; }
};

}  // namespace
}  // namespace martlet::cpu
