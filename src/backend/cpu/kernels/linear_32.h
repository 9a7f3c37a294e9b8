#pragma once

// Formats of 32 columns a block with one scale d and either a minimum m or codes offset by a constant:
//   y += m * (a * sum(x)) + (d * a) * (sum(code * x) - zero * sum(x)),  a: the activations' scale.
// The integer part is exact; the float part is two fused multiply-adds a block, blocks ascending.

#include "backend/cpu/isa/unroll.h"
#include "backend/cpu/kernels/activations.h"
#include "backend/cpu/kernels/dot.h"

namespace martlet::cpu {
namespace {

// One block of R row vectors. codes[k]: columns 4k .. 4k+3.
template <class V, int R>
struct Block32 {
  typename V::Int codes[8][R];
  typename V::Float scale[R], minimum[R];  // minimum: only for formats that have one
};

template <class V, class U>
struct Linear32 : BlockSweep<V, Linear32<V, U>> {
  using Int = typename V::Int;
  using Float = typename V::Float;
  using Activation = Activation32;
  using Panel = Block32<V, V::panel_vectors>;
  template <int T>
  static constexpr int direct_vectors = 1;

  static int64_t blocks(int64_t columns) { return columns / 32; }

  // Calls each(block) for all blocks of these rows, prepared for the dot product.
  template <class Each>
  MARTLET_INLINE static void for_each_block(typename V::Rows rows, int64_t columns, Each each) {
    auto prepared = [&](Block32<V, 1>& block) MARTLET_INLINED {
      unroll<8>([&](auto k) MARTLET_INLINED { block.codes[k][0] = V::template prepare<U::codes>(block.codes[k][0]); });
      each(block);
    };
    int64_t count = blocks(columns);
    if constexpr (requires { U::words; }) {
      constexpr int group = U::words % 4 == 0 ? 1 : U::words % 2 == 0 ? 2 : 4;
      for (; count >= group; count -= group) {
        take_stream<group>(rows, prepared);
        rows.advance(group * U::bytes);
      }
    }
    for (; count > 0; --count) {
      Block32<V, 1> block;
      U::template unpack<V>(rows, block);
      prepared(block);
      rows.advance(U::bytes);
    }
  }

  // Blocks that are whole 32-bit words are read as one stream of words: sixteen bytes at once, whatever block they
  // belong to.
  template <int Group, class Each>
  MARTLET_INLINE static void take_stream(const typename V::Rows& rows, Each each) {
    Int stream[Group * U::words];
    unroll<Group>([&](auto g) MARTLET_INLINED {
      constexpr int begin = (g * U::words + 3) / 4, end = ((g + 1) * U::words + 3) / 4;
      unroll<end - begin>([&](auto i) MARTLET_INLINED {
        Int c[4];
        rows.columns(16 * (begin + i), c);
        unroll<4>([&](auto j) MARTLET_INLINED { stream[4 * (begin + i) + j] = c[j]; });
      });
      Block32<V, 1> block;
      U::template unpack_words<V>(stream + g * U::words, block);
      each(block);
    });
  }

  template <int R, int T>
  MARTLET_INLINE static void add_block(const Block32<V, R>& w, const Activation* const (&x)[T], Float (&y)[R][T]) {
    constexpr int bias = kBias<V, U>;
    Int sum[R][T];
    const int8_t* codes[T];
    MARTLET_UNROLL for (int t = 0; t < T; ++t) {
      codes[t] = x[t]->codes;
      Int start = bias ? V::mul(V::broadcast_four(&x[t]->sum), V::broadcast(-bias)) : V::zero_int();
      MARTLET_UNROLL for (int r = 0; r < R; ++r) sum[r][t] = start;
    }
    dot_columns<V, U::codes, 8, R, T>([&](int r, auto k) MARTLET_INLINED { return w.codes[k][r]; }, codes,
                                      [&](int r, int t, typename V::Partial partial)
                                          MARTLET_INLINED { sum[r][t] = V::fold(sum[r][t], partial); });
    MARTLET_UNROLL for (int t = 0; t < T; ++t) {
      MARTLET_UNROLL for (int r = 0; r < R; ++r) {
        if constexpr (U::has_minimum) y[r][t] = V::fma(w.minimum[r], V::broadcast(x[t]->scaled_sum), y[r][t]);
        y[r][t] = V::fma(V::mul(w.scale[r], V::broadcast(x[t]->scale)), V::to_float(sum[r][t]), y[r][t]);
      }
    }
  }

  template <int T>
  static void direct(const std::byte* const (&first)[1], int64_t stride, int64_t columns, const Activation* (&x)[T],
                     const std::byte* ahead, Float (&y)[1][T]) {
    unroll<T>([&](auto t) MARTLET_INLINED { y[0][t] = V::zero(); });
    for_each_block(typename V::Rows(first[0], stride), columns, [&](const Block32<V, 1>& block) MARTLET_INLINED {
      ahead = V::template prefetch<U::bytes * V::lanes>(ahead, block.codes[7][0]);
      add_block<1, T>(block, x, y);
      unroll<T>([&](auto t) MARTLET_INLINED { ++x[t]; });
    });
  }

  static void fill_panel(const std::byte* first, int64_t stride, int64_t columns, int r, const std::byte* ahead,
                         Panel* panel) {
    for_each_block(typename V::Rows(first, stride), columns, [&](const Block32<V, 1>& block) MARTLET_INLINED {
      ahead = V::template prefetch<U::bytes * V::lanes>(ahead, block.codes[7][0]);
      unroll<8>([&](auto k) MARTLET_INLINED { panel->codes[k][r] = block.codes[k][0]; });
      panel->scale[r] = block.scale[0];
      if constexpr (U::has_minimum) panel->minimum[r] = block.minimum[0];
      ++panel;
    });
  }
};

}  // namespace
}  // namespace martlet::cpu
