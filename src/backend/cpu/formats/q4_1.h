#pragma once

#include "backend/cpu/formats/unpacker.h"

namespace martlet::cpu {
namespace {

// { half d, m; nibbles[16] }: d * code + m
template <>
struct Unpacker<Format::Q4_1> : Blocks32<20, Codes::u4, 0, true> {
  template <class V>
  MARTLET_INLINE static void unpack(const typename V::Rows& rows, Block32<V, 1>& block) {
    unpack_nibbles<V>(rows, 4, block, [](auto code, auto) __attribute__((always_inline)) { return code; });
    typename V::Int scales = rows.words(0);
    block.scale[0] = V::low_half(scales);
    block.minimum[0] = V::high_half(scales);
  }
};

}  // namespace
}  // namespace martlet::cpu
