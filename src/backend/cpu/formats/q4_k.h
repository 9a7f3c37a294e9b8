#pragma once

#include "backend/cpu/formats/scales_k4.h"
#include "backend/cpu/formats/unpacker.h"

namespace martlet::cpu {
namespace {

// { scales[16], see scales_k4.h; nibbles[128] }, sub-blocks of 32: d * factor * code - dmin * minimum.
// Of each 32 bytes the low nibbles are one sub-block, the high ones the next.
template <>
struct Unpacker<Format::Q4_K> : BlocksK4<144, Codes::u4> {
  template <class V>
  struct State {
    typename V::Int raw[8];

    MARTLET_INLINE typename V::Int last() const { return raw[7]; }
    template <class I, class K>
    MARTLET_INLINE typename V::Int code(I, K) const {
      return I::value == 0 ? low_nibbles<V>(raw[K::value]) : high_nibbles<V>(raw[K::value]);
    }
  };

  template <class V>
  MARTLET_INLINE static void scales(const typename V::Rows& rows, Scales256<V>& out, State<V>&) {
    scales_k4<V>(rows, out);
  }
  template <class V>
  MARTLET_INLINE static void load(const typename V::Rows& rows, int part, State<V>& state) {
    load_32<V>(rows, 16 + 32 * part, state.raw);
  }
  template <class V>
  MARTLET_INLINE static void load_along(const std::byte* block, State<V>& state) {
    unroll<4>([&](auto part) MARTLET_INLINED { state.raw[part] = V::load_int(block + 16 + 32 * part); });
  }
};

}  // namespace
}  // namespace martlet::cpu
