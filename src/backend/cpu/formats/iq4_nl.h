#pragma once

#include "backend/cpu/formats/iq4_codebook.h"
#include "backend/cpu/formats/unpacker.h"

namespace martlet::cpu {
namespace {

// { half d; nibbles[16] }: d * codebook[nibble]
template <>
struct Unpacker<Format::IQ4_NL> : Blocks32<18, Codes::s8, 0, false> {
  template <class V>
  MARTLET_INLINE static void unpack(const typename V::Rows& rows, Block32<V, 1>& block) {
    const auto table = V::table(kIq4Codebook);
    load_nibbles<V>(rows, 2, block, [&](auto code, auto) MARTLET_INLINED { return V::lookup(table, code); });
    block.scale[0] = leading_half<V>(rows);
  }
};

}  // namespace
}  // namespace martlet::cpu
