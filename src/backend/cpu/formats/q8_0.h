#pragma once

#include "backend/cpu/formats/unpacker.h"

namespace martlet::cpu {
namespace {

// { half d; int8 codes[32] }: d * code
template <>
struct Unpacker<Format::Q8_0> : Blocks32<34, Codes::s8, 0, false> {
  template <class V>
  MARTLET_INLINE static void unpack(const typename V::Rows& rows, Block32<V, 1>& block) {
    typename V::Int low[4], high[4];
    rows.columns(2, low);
    rows.columns(18, high);
    unroll<4>([&](auto k) MARTLET_INLINED {
      block.codes[k][0] = low[k];
      block.codes[k + 4][0] = high[k];
    });
    block.scale[0] = V::low_half(rows.words(0));
  }
};

}  // namespace
}  // namespace martlet::cpu
