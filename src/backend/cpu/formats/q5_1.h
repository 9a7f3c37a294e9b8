#pragma once

#include "backend/cpu/formats/unpacker.h"

namespace martlet::cpu {
namespace {

// { half d, m; uint32 fifth bits; nibbles[16] }: d * code + m
template <>
struct Unpacker<Format::Q5_1> : Words32<Unpacker<Format::Q5_1>, 24, Codes::u5, 0, true> {
  template <class V>
  MARTLET_INLINE static void unpack_words(const typename V::Int* words, Block32<V, 1>& block) {
    unpack_nibbles<V>(words + 2, block, [&](auto code, auto k) MARTLET_INLINED {
      return V::bit_or(code, V::template fifth_bits<k>(words[1]));
    });
    block.scale[0] = V::low_half(words[0]);
    block.minimum[0] = V::high_half(words[0]);
  }
};

}  // namespace
}  // namespace martlet::cpu
