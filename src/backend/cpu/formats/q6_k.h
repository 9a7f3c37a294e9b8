#pragma once

#include "backend/cpu/formats/unpacker.h"

namespace martlet::cpu {
namespace {

// { nibbles[128]; upper pairs of bits[64]; int8 factors[16]; half d }, sub-blocks of 16: d * factor * (code - 32).
// Half h has 64 bytes of nibbles and 32 of pairs: byte l of the first 32 holds columns 128h + l (low) and 128h + 64 + l
// (high), of the second 32 columns 128h + 32 + l and 128h + 96 + l; bits 2i, 2i+1 of pair byte l go with column 128h +
// 32i + l.
template <>
struct Unpacker<Format::Q6_K> : Blocks256<210, Codes::u6, 32, false, 16, 4> {
  template <class V>
  struct State {
    typename V::Int low[2][4], pairs[4];

    MARTLET_INLINE typename V::Int last() const { return pairs[3]; }
    template <class I, class K>
    MARTLET_INLINE typename V::Int code(I, K) const {
      constexpr int i = I::value;
      typename V::Int raw = low[i % 2][K::value];
      typename V::Int nibbles = i < 2 ? low_nibbles<V>(raw) : high_nibbles<V>(raw);
      typename V::Int high = i < 2 ? V::left(pairs[K::value], 4 - 2 * i) : V::right(pairs[K::value], 2 * i - 4);
      return V::bit_or(nibbles, V::bit_and(high, V::broadcast_byte(0x30)));
    }
  };

  template <class V>
  MARTLET_INLINE static void scales(const typename V::Rows& rows, Scales256<V>& out, State<V>&) {
    rows.columns(192, out.factors);
    out.scale = V::high_half(rows.words(206));
  }
  template <class V>
  MARTLET_INLINE static void load(const typename V::Rows& rows, int part, State<V>& state) {
    int half = part / 2, group = part % 2;
    rows.columns(64 * half + 16 * group, state.low[0]);
    rows.columns(64 * half + 32 + 16 * group, state.low[1]);
    rows.columns(128 + 32 * half + 16 * group, state.pairs);
  }
  template <class V>
  MARTLET_INLINE static void load_along(const std::byte* block, State<V>& state) {
    unroll<2>([&](auto half) MARTLET_INLINED {
      state.low[0][half] = V::load_int(block + 64 * half);
      state.low[1][half] = V::load_int(block + 64 * half + 32);
      state.pairs[half] = V::load_int(block + 128 + 32 * half);
    });
  }
  template <class V>
  MARTLET_INLINE static typename V::Int factors_along(const std::byte* block) {
    return V::widen_apart(block + 192);
  }
  template <class V, int J>
  MARTLET_INLINE static typename V::Int factor_along(typename V::Int factors) {
    return V::template repeat_word<J>(factors);
  }
  MARTLET_INLINE static int sub_block(int part, int i) { return part / 2 * 8 + 2 * i + part % 2; }
};

}  // namespace
}  // namespace martlet::cpu
