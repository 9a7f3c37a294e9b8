#pragma once

#include "backend/cpu/formats/unpacker.h"

namespace martlet::cpu {
namespace {

// { half d; uint32 fifth bits; nibbles[16] }: d * (code - 16)
template <>
struct Unpacker<Format::Q5_0> : Blocks32<22, Codes::u5, 16, false> {
  template <class V>
  MARTLET_INLINE static void unpack(const typename V::Rows& rows, Block32<V, 1>& block) {
    typename V::Int bits = rows.words(2);
    load_nibbles<V>(rows, 6, block, [&](auto code, auto k) MARTLET_INLINED {
      return V::bit_or(code, V::template fifth_bits<k>(bits));
    });
    block.scale[0] = leading_half<V>(rows);
  }
};

}  // namespace
}  // namespace martlet::cpu
