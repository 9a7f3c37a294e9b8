#pragma once

#include "backend/cpu/formats/unpacker.h"

namespace martlet::cpu {
namespace {

// { half d, m; uint32 fifth bits; nibbles[16] }: d * code + m
template <>
struct Unpacker<Format::Q5_1> : Blocks32<24, Codes::u5, 0, true> {
  template <class V>
  MARTLET_INLINE static void unpack(const typename V::Rows& rows, Block32<V, 1>& block) {
    typename V::Int scales = rows.words(0), bits = rows.words(4);
    unpack_nibbles<V>(rows, 8, block, [&](auto code, auto k) __attribute__((always_inline)) {
      return V::bit_or(code, V::template fifth_bits<k>(bits));
    });
    block.scale[0] = V::low_half(scales);
    block.minimum[0] = V::high_half(scales);
  }
};

}  // namespace
}  // namespace martlet::cpu
