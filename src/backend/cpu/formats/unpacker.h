#pragma once

// What a storage format tells the kernels; one specialisation of Unpacker each, in a header of its own, for every
// level.
//
// All: `bytes` of a block, `activations`, `codes` (their range), `zero` (what is taken off each code), `has_minimum`.
// Blocks of 32:  unpack(rows, block): codes, scale and minimum of one block; or, when blocks are whole 32-bit words,
//   Words32 as the base, which reads them in larger pieces, and unpack_words(words, block).
// Blocks of 256: scales(rows, scales, state): factors and scales of a block; load(rows, part, state): a part's raw
// bytes, of
//   `parts`; state.code(i, k): column k of the part's sub-block i, of `part_subs`; sub_block(part, i): which one that
//   is.
//   Where 32 bytes of one row are sub-blocks' codes in order (SumsAlong), also: load_along(block, state): the raw bytes
//   of all parts of one row's block, so that state.code(i, part) are 32 columns; factors_along(block) and
//   factor_along<J> (factors): the 16-bit factors of the J-th 32 columns. Parts are then runs of 32 * part_subs
//   columns.
// Floats: value<V, I>(column): the I-th value in each lane; single(rows): the next value of each row.

#include "backend/cpu/isa/unroll.h"
#include "backend/cpu/kernels/linear.h"
#include "tensor/format.h"

namespace martlet::cpu {
namespace {

template <Format F>
struct Unpacker;

template <class V, int R>
struct Block32;
template <class V>
struct Scales256;

template <int Bytes, Codes Range, int Zero, bool Minimum>
struct Blocks32 {
  static constexpr ActivationKind activations = ActivationKind::q8_32;
  static constexpr int bytes = Bytes;
  static constexpr Codes codes = Range;
  static constexpr int zero = Zero;
  static constexpr bool has_minimum = Minimum;
};

template <int Bytes, Codes Range, int Zero, bool Minimum, int SubColumns, int Parts>
struct Blocks256 {
  static constexpr ActivationKind activations = ActivationKind::q8_256;
  static constexpr int bytes = Bytes;
  static constexpr Codes codes = Range;
  static constexpr int zero = Zero;
  static constexpr bool has_minimum = Minimum;
  static constexpr int sub_columns = SubColumns;  // columns that share a factor
  static constexpr int parts = Parts;
  static constexpr int part_subs = 256 / SubColumns / Parts;
};

template <class V>
MARTLET_INLINE typename V::Int low_nibbles(typename V::Int x) {
  return V::bit_and(x, V::broadcast_byte(15));
}
template <class V>
MARTLET_INLINE typename V::Int high_nibbles(typename V::Int x) {
  return V::bit_and(V::right(x, 4), V::broadcast_byte(15));
}

// The half that a block starts with, by the word around it: a word goes into its lane with one instruction, two bytes
// take two. Blocks are longer than a word, so nothing behind the row is read.
template <class V>
MARTLET_INLINE typename V::Float leading_half(const typename V::Rows& rows) {
  return V::low_half(rows.words(0));
}

// Thirty-two bytes of each row as eight columns.
template <class V>
MARTLET_INLINE void load_32(const typename V::Rows& rows, int64_t offset, typename V::Int (&c)[8]) {
  typename V::Int low[4], high[4];
  rows.columns(offset, low);
  rows.columns(offset + 16, high);
  unroll<4>([&](auto k) MARTLET_INLINED {
    c[k] = low[k];
    c[k + 4] = high[k];
  });
}

// Nibbles of blocks of 32: sixteen bytes in four columns, low halves are columns 0..15, high halves 16..31. map(code,
// k) finishes each.
template <class V, class Map>
MARTLET_INLINE void unpack_nibbles(const typename V::Int* raw, Block32<V, 1>& block, Map map) {
  unroll<4>([&](auto k) MARTLET_INLINED {
    block.codes[k][0] = map(low_nibbles<V>(raw[k]), k);
    block.codes[k + 4][0] = map(high_nibbles<V>(raw[k]), std::integral_constant<int, k + 4>{});
  });
}

template <class V, class Map>
MARTLET_INLINE void load_nibbles(const typename V::Rows& rows, int64_t offset, Block32<V, 1>& block, Map map) {
  typename V::Int raw[4];
  rows.columns(offset, raw);
  unpack_nibbles<V>(raw, block, map);
}

// Blocks of 32 that are whole words; U is the format itself.
template <class U, int Bytes, Codes Range, int Zero, bool Minimum>
struct Words32 : Blocks32<Bytes, Range, Zero, Minimum> {
  static constexpr int words = Bytes / 4;

  template <class V>
  MARTLET_INLINE static void unpack(const typename V::Rows& rows, Block32<V, 1>& block) {
    typename V::Int all[words], last[4];
    unroll<words - 4>([&](auto i) MARTLET_INLINED { all[i] = rows.words(4 * i); });
    rows.columns(Bytes - 16, last);
    unroll<4>([&](auto i) MARTLET_INLINED { all[words - 4 + i] = last[i]; });
    U::template unpack_words<V>(all, block);
  }
};

}  // namespace
}  // namespace martlet::cpu
