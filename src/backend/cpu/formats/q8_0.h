#pragma once

#include "backend/cpu/formats/unpacker.h"

namespace martlet::cpu {
namespace {

// { half d; int8 codes[32] }: d * code
template <>
struct Unpacker<Format::Q8_0> : Blocks32<34, Codes::s8, 0, false> {
  template <class V>
  MARTLET_INLINE static void unpack(const typename V::Rows& rows, Block32<V, 1>& block) {
    typename V::Int codes[8];
    load_32<V>(rows, 2, codes);
    unroll<8>([&](auto k) MARTLET_INLINED { block.codes[k][0] = codes[k]; });
    block.scale[0] = leading_half<V>(rows);
  }
};

}  // namespace
}  // namespace martlet::cpu
