#pragma once

#include "backend/cpu/formats/unpacker.h"

namespace martlet::cpu {
namespace {

// { half d; nibbles[16] }: d * (code - 8)
template <>
struct Unpacker<Format::Q4_0> : Blocks32<18, Codes::u4, 8, false> {
  template <class V>
  MARTLET_INLINE static void unpack(const typename V::Rows& rows, Block32<V, 1>& block) {
    load_nibbles<V>(rows, 2, block, [](auto code, auto) MARTLET_INLINED { return code; });
    block.scale[0] = leading_half<V>(rows);
  }
};

}  // namespace
}  // namespace martlet::cpu
