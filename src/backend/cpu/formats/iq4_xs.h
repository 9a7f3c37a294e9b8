#pragma once

#include "backend/cpu/formats/iq4_codebook.h"
#include "backend/cpu/formats/unpacker.h"

namespace martlet::cpu {
namespace {

// { half d; uint16 upper pairs of the factors; low nibbles of the factors[4]; nibbles[128] }, sub-blocks of 32:
// d * (factor - 32) * codebook[nibble]. Of each sixteen bytes the low nibbles come first, then the high ones.
template <>
struct Unpacker<Format::IQ4_XS> : Blocks256<136, Codes::s8, 0, false, 32, 8> {
  template <class V>
  struct State {
    typename V::Int raw[4];
    typename V::Table table;

    MARTLET_INLINE typename V::Int last() const { return raw[3]; }
    template <class I, class K>
    MARTLET_INLINE typename V::Int code(I, K) const {
      constexpr int k = K::value;
      return V::lookup(table, k < 4 ? low_nibbles<V>(raw[k % 4]) : high_nibbles<V>(raw[k % 4]));
    }
  };

  // The four nibbles, or the four pairs of bits, of the low bits of each lane as its bytes.
  template <class V>
  MARTLET_INLINE static typename V::Int spread_nibbles(typename V::Int x) {
    x = V::bit_and(V::bit_or(x, V::left(x, 8)), V::broadcast(0x00ff00ff));
    return V::bit_and(V::bit_or(x, V::left(x, 4)), V::broadcast(0x0f0f0f0f));
  }
  template <class V>
  MARTLET_INLINE static typename V::Int spread_pairs(typename V::Int x) {
    x = V::bit_and(V::bit_or(x, V::left(x, 12)), V::broadcast(0x000f000f));
    return V::bit_and(V::bit_or(x, V::left(x, 6)), V::broadcast(0x03030303));
  }

  template <class V>
  MARTLET_INLINE static void scales(const typename V::Rows& rows, Scales256<V>& out, State<V>& state) {
    state.table = V::table(kIq4Codebook);
    typename V::Int head = rows.words(0), low = rows.words(4);
    unroll<2>([&](auto j) MARTLET_INLINED {
      typename V::Int nibbles = spread_nibbles<V>(V::bit_and(V::right(low, 16 * j), V::broadcast(0xffff)));
      typename V::Int pairs = spread_pairs<V>(V::bit_and(V::right(head, 16 + 8 * j), V::broadcast(0xff)));
      out.factors[j] = V::sub_bytes(V::bit_or(nibbles, V::left(pairs, 4)), V::broadcast_byte(32));
    });
    out.scale = V::low_half(head);
  }
  template <class V>
  MARTLET_INLINE static void load(const typename V::Rows& rows, int part, State<V>& state) {
    rows.columns(8 + 16 * part, state.raw);
  }
  MARTLET_INLINE static int sub_block(int part, int) { return part; }
};

}  // namespace
}  // namespace martlet::cpu
