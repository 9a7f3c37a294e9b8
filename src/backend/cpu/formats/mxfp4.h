#pragma once

#include "backend/cpu/formats/unpacker.h"

namespace martlet::cpu {
namespace {

// { uint8 exponent; nibbles[16] }: 2^(exponent - 128) * codebook[nibble], the codebook holding twice the E2M1 values.
// Here it is shifted by 12 to be unsigned.
constexpr int8_t kMxfp4Codebook[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

// 2^(e - 128) from its bits: a normal float from e = 2 on, below that the subnormals 2^-128 and 2^-127.
template <class V>
MARTLET_INLINE typename V::Float half_power(typename V::Int e) {
  typename V::Int normal = V::left(V::sub(V::max(e, V::broadcast(1)), V::broadcast(1)), 23);
  typename V::Int below = V::max(V::sub(V::broadcast(2), e), V::zero_int());  // 2 and 1 for exponents 0 and 1, else 0
  typename V::Int subnormal =
      V::bit_or(V::left(V::bit_and(below, V::broadcast(1)), 22), V::left(V::right(below, 1), 21));
  return V::as_float(V::bit_or(normal, subnormal));
}

template <>
struct Unpacker<Format::MXFP4> : Blocks32<17, Codes::u5, 12, false> {
  template <class V>
  MARTLET_INLINE static void unpack(const typename V::Rows& rows, Block32<V, 1>& block) {
    const auto table = V::table(kMxfp4Codebook);
    load_nibbles<V>(rows, 1, block, [&](auto code, auto) MARTLET_INLINED { return V::lookup(table, code); });
    block.scale[0] = half_power<V>(rows.bytes(0));
  }
};

}  // namespace
}  // namespace martlet::cpu
