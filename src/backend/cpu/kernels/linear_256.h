#pragma once

// Formats of 256 columns a block with integer factors s over sub-blocks of 16 or 32 columns:
//   y += a * (d * sum_j s_j * (sum(code * x) - zero * sum(x)) - dmin * sum_j m_j * sum(x)),  j: sub-blocks.
// All sums within a block are exact in 32 bits; the float part is one multiplication and one or two fused
// multiply-adds.

#include "backend/cpu/isa/unroll.h"
#include "backend/cpu/kernels/activations.h"
#include "backend/cpu/kernels/dot.h"

namespace martlet::cpu {
namespace {

// Scales of one block of a row vector, as formats write them.
template <class V>
struct Scales256 {
  typename V::Float scale, minimum;
  typename V::Int factors[4];   // signed bytes, sub-block after sub-block; two are used with sub-blocks of 32
  typename V::Int minimums[4];  // likewise, for formats that have them
};

// One block of R row vectors: codes[k] are columns 4k .. 4k+3.
template <class V, int Subs, int R>
struct Block256 {
  typename V::Int codes[64][R];
  typename V::Int factors[Subs][R];
  typename V::Int offsets[Subs / 2][R];  // pairs of minimums, or of factors for formats whose codes are offset
  typename V::Float scale[R], minimum[R];
};

// Whether level and format can multiply one row after the other, each along its columns, 32 in a vector. One token is
// faster so where rows are short: nothing is transposed, activations need no broadcast, and the weights are one stream.
template <class V, class U>
concept SumsAlong = requires(const std::byte* block, const int8_t* x) {
  U::template factors_along<V>(block);
  V::dot_along(V::load_int(block), x);
};

template <class V, class U>
struct Linear256 : BlockSweep<V, Linear256<V, U>> {
  using Int = typename V::Int;
  using Float = typename V::Float;
  using Activation = Activation256;
  static constexpr int subs = 256 / U::sub_columns;
  static constexpr int bias = kBias<V, U>;
  static constexpr bool has_offsets = U::has_minimum || bias != 0;
  using Panel = Block256<V, subs, V::panel_vectors>;
  template <int T>
  static constexpr int direct_vectors = 1;
  static constexpr int64_t along_ahead = 4 << 10;  // of the prefetch: from 2 to 16 KB it makes no difference (Zen)
  static constexpr int64_t along_blocks = 12;  // blocks of a row: longer ones are read as fast side by side, or faster

  template <int R>
  struct Decoded {
    Int factors[subs][R];
    Int offsets[subs / 2][R];
    Float scale[R], minimum[R];
  };

  static int64_t blocks(int64_t columns) { return columns / 256; }

  // Whether direct<T> reads its rows one by one.
  template <int T>
  static bool row_by_row(int64_t columns) {
    return T == 1 && SumsAlong<V, U> && blocks(columns) <= along_blocks;
  }

  // Scales as dot products want them, written to row vector r of `out`.
  template <class Out>
  MARTLET_INLINE static void decode(const Scales256<V>& scales, int r, Out& out) {
    unroll<subs>([&](auto j) MARTLET_INLINED { out.factors[j][r] = V::template factor<j % 4>(scales.factors[j / 4]); });
    if constexpr (has_offsets) {
      const Int* source = U::has_minimum ? scales.minimums : scales.factors;
      unroll<subs / 2>([&](auto j) MARTLET_INLINED { out.offsets[j][r] = V::template pairs<j % 2>(source[j / 2]); });
    }
    out.scale[r] = scales.scale;
    if constexpr (U::has_minimum) out.minimum[r] = scales.minimum;
  }

  // sum_j offset_j * sum(x of j)
  template <class W>
  MARTLET_INLINE static Int offset_sum(const W& w, int r, const Activation* x) {
    const int16_t* sums = subs == 16 ? x->sums_16 : x->sums_32;
    Int sum = V::zero_int();
    unroll<subs / 2>(
        [&](auto j) MARTLET_INLINED { sum = V::dot_pairs(sum, w.offsets[j][r], V::broadcast_four(sums + 2 * j)); });
    return sum;
  }

  template <class W>
  MARTLET_INLINE static Int start(const W& w, int r, const Activation* x) {
    if constexpr (bias == 0) return V::zero_int();
    return V::mul(offset_sum(w, r, x), V::broadcast(-bias));
  }

  template <class W>
  MARTLET_INLINE static Float finish(const W& w, int r, const Activation* x, Int sum, Float y) {
    Float block = V::mul(w.scale[r], V::to_float(sum));
    if constexpr (U::has_minimum) block = V::fnma(w.minimum[r], V::to_float(offset_sum(w, r, x)), block);
    return V::fma(V::broadcast(x->scale), block, y);
  }

  template <int T>
  static void direct(const std::byte* const (&first)[1], int64_t stride, int64_t columns, const Activation* (&x)[T],
                     const std::byte* ahead, Float (&y)[1][T]) {
    if constexpr (T == 1 && SumsAlong<V, U>) {
      if (row_by_row<T>(columns)) return along(first[0], stride, columns, x[0], ahead, y[0][0]);
    }
    typename V::Rows rows(first[0], stride);
    unroll<T>([&](auto t) MARTLET_INLINED { y[0][t] = V::zero(); });
    for (int64_t b = blocks(columns); b > 0; --b) {
      Scales256<V> scales;
      typename U::template State<V> state;
      U::template scales<V>(rows, scales, state);
      Decoded<1> decoded;
      decode(scales, 0, decoded);
      Int sum[T];
      unroll<T>([&](auto t) MARTLET_INLINED { sum[t] = start(decoded, 0, x[t]); });
      for (int part = 0; part < U::parts; ++part) {
        U::template load<V>(rows, part, state);
        ahead = V::template prefetch<U::bytes * V::lanes / U::parts>(ahead, state.last());
        unroll<U::part_subs>([&](auto i) MARTLET_INLINED {
          int sub = U::sub_block(part, i);
          const int8_t* codes[T];
          unroll<T>([&](auto t) MARTLET_INLINED { codes[t] = x[t]->codes + sub * U::sub_columns; });
          dot_columns<V, U::codes, U::sub_columns / 4, 1, T>(
              [&](int, auto k) MARTLET_INLINED { return V::template prepare<U::codes>(state.code(i, k)); }, codes,
              [&](int, int t, typename V::Partial partial)
                  MARTLET_INLINED { sum[t] = V::fold(sum[t], partial, decoded.factors[sub][0]); });
        });
      }
      unroll<T>([&](auto t) MARTLET_INLINED { y[0][t] = finish(decoded, 0, x[t], sum[t], y[0][t]); });
      rows.advance(U::bytes);
      unroll<T>([&](auto t) MARTLET_INLINED { ++x[t]; });
    }
  }

  // One row's products with a block of activations, without the offset; all lanes together are the sum.
  MARTLET_INLINE static Int row_sum(const std::byte* block, const Activation* x, const std::byte*& ahead) {
    typename U::template State<V> state;
    U::template load_along<V>(block, state);
    const Int factors = U::template factors_along<V>(block);
    ahead = V::template prefetch<U::bytes>(ahead, factors);
    Int sum = V::zero_int();
    unroll<8 / U::part_subs>([&](auto part) MARTLET_INLINED {
      unroll<U::part_subs>([&](auto i) MARTLET_INLINED {
        constexpr int j = part * U::part_subs + i;
        sum =
            V::fold(sum, V::dot_along(state.code(i, part), x->codes + 32 * j), U::template factor_along<V, j>(factors));
      });
    });
    return sum;
  }

  static void along(const std::byte* first, int64_t stride, int64_t columns, const Activation* x,
                    const std::byte* ahead, Float& y) {
    const int64_t count = blocks(columns);
    Int sums[along_blocks][V::lanes];
    for (int r = 0; r < V::lanes; ++r) {
      const std::byte* block = first + r * stride;
      for (int64_t b = 0; b < count; ++b, block += U::bytes) sums[b][r] = row_sum(block, x + b, ahead);
    }
    typename V::Rows rows(first, stride);
    y = V::zero();
    for (int64_t b = 0; b < count; ++b, ++x) {
      Scales256<V> scales;
      typename U::template State<V> state;
      U::template scales<V>(rows, scales, state);
      Decoded<1> decoded;
      decode(scales, 0, decoded);
      y = finish(decoded, 0, x, V::add(start(decoded, 0, x), V::sums_of(sums[b])), y);
      rows.advance(U::bytes);
    }
  }

  static void fill_panel(const std::byte* first, int64_t stride, int64_t columns, int r, const std::byte* ahead,
                         Panel* panel) {
    typename V::Rows rows(first, stride);
    for (int64_t b = blocks(columns); b > 0; --b, ++panel) {
      Scales256<V> scales;
      typename U::template State<V> state;
      U::template scales<V>(rows, scales, state);
      decode(scales, r, *panel);
      for (int part = 0; part < U::parts; ++part) {
        U::template load<V>(rows, part, state);
        ahead = V::template prefetch<U::bytes * V::lanes / U::parts>(ahead, state.last());
        unroll<U::part_subs>([&](auto i) MARTLET_INLINED {
          int column = U::sub_block(part, i) * U::sub_columns / 4;
          unroll<U::sub_columns / 4>([&](auto k) MARTLET_INLINED {
            panel->codes[column + k][r] = V::template prepare<U::codes>(state.code(i, k));
          });
        });
      }
      rows.advance(U::bytes);
    }
  }

  template <int R, int T>
  MARTLET_INLINE static void add_block(const Panel& w, const Activation* const (&x)[T], Float (&y)[R][T]) {
    Int sum[R][T];
    MARTLET_UNROLL for (int r = 0; r < R; ++r) {
      MARTLET_UNROLL for (int t = 0; t < T; ++t) sum[r][t] = start(w, r, x[t]);
    }
    for (int sub = 0; sub < subs; ++sub) {
      const int8_t* codes[T];
      unroll<T>([&](auto t) MARTLET_INLINED { codes[t] = x[t]->codes + sub * U::sub_columns; });
      const auto* columns = w.codes + sub * U::sub_columns / 4;
      dot_columns<V, U::codes, U::sub_columns / 4, R, T>(
          [&](int r, auto k) MARTLET_INLINED { return columns[k][r]; }, codes,
          [&](int r, int t, typename V::Partial partial)
              MARTLET_INLINED { sum[r][t] = V::fold(sum[r][t], partial, w.factors[sub][r]); });
    }
    MARTLET_UNROLL for (int r = 0; r < R; ++r) {
      MARTLET_UNROLL for (int t = 0; t < T; ++t) y[r][t] = finish(w, r, x[t], sum[r][t], y[r][t]);
    }
  }
};

}  // namespace
}  // namespace martlet::cpu
