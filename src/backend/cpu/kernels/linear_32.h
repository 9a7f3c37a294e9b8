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
struct Linear32 {
  using Int = typename V::Int;
  using Float = typename V::Float;
  using Activation = Activation32;
  using Panel = Block32<V, V::panel_vectors>;
  template <int T>
  static constexpr int direct_vectors = 1;

  static int64_t blocks(int64_t columns) { return columns / 32; }

  MARTLET_INLINE static void unpack(const typename V::Rows& rows, Block32<V, 1>& block) {
    U::template unpack<V>(rows, block);
    unroll<8>([&](auto k) { block.codes[k][0] = V::template prepare<U::codes>(block.codes[k][0]); });
  }

  template <int R, int T>
  MARTLET_INLINE static void add_block(const Block32<V, R>& w, const Activation* const (&x)[T], Float (&y)[R][T]) {
    constexpr int bias = kBias<V, U>;
    Int sum[R][T];
    const int8_t* codes[T];
    unroll<T>([&](auto t) {
      codes[t] = x[t]->codes;
      sum[0][t] = bias ? V::mul(V::broadcast_four(&x[t]->sum), V::broadcast(-bias)) : V::zero_int();
      unroll<R - 1>([&](auto r) { sum[r + 1][t] = sum[0][t]; });
    });
    dot_columns<V, U::codes, 8, R, T>([&](auto r, auto k) __attribute__((always_inline)) { return w.codes[k][r]; }, codes,
                                      [&](auto r, auto t, typename V::Partial partial) __attribute__((always_inline)) {
                                        sum[r][t] = V::fold(sum[r][t], partial);
                                      });
    unroll<T>([&](auto t) {
      unroll<R>([&](auto r) {
        if constexpr (U::has_minimum) y[r][t] = V::fma(w.minimum[r], V::broadcast(x[t]->scaled_sum), y[r][t]);
        y[r][t] = V::fma(V::mul(w.scale[r], V::broadcast(x[t]->scale)), V::to_float(sum[r][t]), y[r][t]);
      });
    });
  }

  template <int T>
  static void direct(const std::byte* const (&first)[1], int64_t stride, int64_t columns, const Activation* (&x)[T],
                     const std::byte* ahead, Float (&y)[1][T]) {
    typename V::Rows rows(first[0], stride);
    unroll<T>([&](auto t) { y[0][t] = V::zero(); });
    for (int64_t b = blocks(columns); b > 0; --b) {
      Block32<V, 1> block;
      unpack(rows, block);
      rows.advance(U::bytes);
      ahead = V::template prefetch<U::bytes * V::lanes>(ahead, block.codes[7][0]);
      add_block<1, T>(block, x, y);
      unroll<T>([&](auto t) { ++x[t]; });
    }
  }

  static void fill_panel(const std::byte* first, int64_t stride, int64_t columns, int r, Panel* panel) {
    typename V::Rows rows(first, stride);
    for (int64_t b = blocks(columns); b > 0; --b, ++panel) {
      Block32<V, 1> block;
      unpack(rows, block);
      rows.advance(U::bytes);
      unroll<8>([&](auto k) { panel->codes[k][r] = block.codes[k][0]; });
      panel->scale[r] = block.scale[0];
      if constexpr (U::has_minimum) panel->minimum[r] = block.minimum[0];
    }
  }

  template <int T>
  static void sweep(const Panel* panel, int64_t columns, const Activation* (&x)[T], Float (&y)[V::panel_vectors][T]) {
    for (auto& row : y) {
      for (Float& value : row) value = V::zero();
    }
    for (int64_t b = blocks(columns); b > 0; --b, ++panel) {
      add_block<V::panel_vectors, T>(*panel, x, y);
      unroll<T>([&](auto t) { ++x[t]; });
    }
  }
};

}  // namespace
}  // namespace martlet::cpu
