#pragma once

#include "backend/cpu/formats/scales_k4.h"
#include "backend/cpu/formats/unpacker.h"

namespace martlet::cpu {
namespace {

// { scales[16], see scales_k4.h; fifth bits[32]; nibbles[128] }: as Q4_K, bit j of fifth-bit byte l belonging to column
// 32j + l.
template <>
struct Unpacker<Format::Q5_K> : BlocksK4<176, Codes::u5> {
  template <class V>
  struct State {
    typename V::Int raw[8],
        fifth[8];  // fifth: of the whole block, shifted so that bit i belongs to sub-block i of the part

    MARTLET_INLINE typename V::Int last() const { return raw[7]; }
    template <class I, class K>
    MARTLET_INLINE typename V::Int code(I, K) const {
      typename V::Int low = I::value == 0 ? low_nibbles<V>(raw[K::value]) : high_nibbles<V>(raw[K::value]);
      typename V::Int bit = V::bit_and(V::right(fifth[K::value], I::value), V::broadcast_byte(1));
      return V::bit_or(low, V::left(bit, 4));
    }
  };

  template <class V>
  MARTLET_INLINE static void scales(const typename V::Rows& rows, Scales256<V>& out, State<V>& state) {
    scales_k4<V>(rows, out);
    load_32<V>(rows, 16, state.fifth);
  }
  template <class V>
  MARTLET_INLINE static void load(const typename V::Rows& rows, int part, State<V>& state) {
    load_32<V>(rows, 48 + 32 * part, state.raw);
    if (part > 0) unroll<8>([&](auto k) MARTLET_INLINED { state.fifth[k] = V::right(state.fifth[k], 2); });
  }
  template <class V>
  MARTLET_INLINE static void load_along(const std::byte* block, State<V>& state) {
    const typename V::Int fifth = V::load_int(block + 16);
    unroll<4>([&](auto part) MARTLET_INLINED {
      state.raw[part] = V::load_int(block + 48 + 32 * part);
      state.fifth[part] = V::right(fifth, 2 * part);
    });
  }
};

}  // namespace
}  // namespace martlet::cpu
