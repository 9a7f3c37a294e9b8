#pragma once

#include "backend/cpu/formats/unpacker.h"

namespace martlet::cpu {
namespace {

// { half d, m; nibbles[16] }: d * code + m
template <>
struct Unpacker<Format::Q4_1> : Words32<Unpacker<Format::Q4_1>, 20, Codes::u4, 0, true> {
  template <class V>
  MARTLET_INLINE static void unpack_words(const typename V::Int* words, Block32<V, 1>& block) {
    unpack_nibbles<V>(words + 1, block, [](auto code, auto) MARTLET_INLINED { return code; });
    block.scale[0] = V::low_half(words[0]);
    block.minimum[0] = V::high_half(words[0]);
  }
};

}  // namespace
}  // namespace martlet::cpu
