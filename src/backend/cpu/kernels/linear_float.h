#pragma once

// Weights that are floats: y = sum_k w[k] * x[k], one fused multiply-add a column, columns ascending.

#include "backend/cpu/isa/unroll.h"

namespace martlet::cpu {
namespace {

// Column k of R row vectors.
template <class V, int R>
struct FloatColumn {
  typename V::Float w[R];
};

template <class V, class U>
struct LinearFloat {
  using Int = typename V::Int;
  using Float = typename V::Float;
  using Activation = float;
  using Panel = FloatColumn<V, V::panel_vectors>;
  static constexpr int step = 16 / U::bytes;  // columns in the sixteen bytes that one load takes of each row
  // One chain of additions a row vector leaves the processor waiting: one token takes several vectors at once.
  template <int T>
  static constexpr int direct_vectors = T > 1 || V::lanes > 8 ? 2 : 4;

  static int64_t blocks(int64_t columns) { return columns; }

  // Calls each(k, w) for the columns from k on of one row vector, `step` at once while there are as many.
  template <class Each>
  MARTLET_INLINE static void take_step(const typename V::Rows& rows, Each each) {
    Int c[4];
    rows.columns(0, c);
    unroll<step>([&](auto k) MARTLET_INLINED { each(k, U::template value<V, k % (step / 4)>(c[k / (step / 4)])); });
  }

  template <int T>
  static void direct(const std::byte* const (&first)[direct_vectors<T>], int64_t stride, int64_t columns,
                     const Activation* (&x)[T], const std::byte* ahead, Float (&y)[direct_vectors<T>][T]) {
    constexpr int R = direct_vectors<T>;
    auto rows = [&]<int... I>(std::integer_sequence<int, I...>) MARTLET_INLINED {
      return std::array<typename V::Rows, R>{typename V::Rows(first[I], stride)...};
    }
    (std::make_integer_sequence<int, R>{});
    unroll<R>([&](auto r) MARTLET_INLINED { unroll<T>([&](auto t) MARTLET_INLINED { y[r][t] = V::zero(); }); });
    int64_t k = 0;
    for (; k + step <= columns; k += step) {
      unroll<R>([&](auto r) MARTLET_INLINED {
        Int last = V::zero_int();
        take_step(rows[r], [&](auto i, Float w) MARTLET_INLINED {
          unroll<T>([&](auto t) MARTLET_INLINED { y[r][t] = V::fma(w, V::broadcast(x[t][i]), y[r][t]); });
          last = V::as_int(w);
        });
        rows[r].advance(16);
        ahead = V::template prefetch<16 * V::lanes>(ahead, last);
      });
      unroll<T>([&](auto t) MARTLET_INLINED { x[t] += step; });
    }
    for (; k < columns; ++k) {
      unroll<R>([&](auto r) MARTLET_INLINED {
        Float w = U::template single<V>(rows[r]);
        unroll<T>([&](auto t) MARTLET_INLINED { y[r][t] = V::fma(w, V::broadcast(*x[t]), y[r][t]); });
        rows[r].advance(U::bytes);
      });
      unroll<T>([&](auto t) MARTLET_INLINED { ++x[t]; });
    }
  }

  static void fill_panel(const std::byte* first, int64_t stride, int64_t columns, int r, const std::byte* ahead,
                         Panel* panel) {
    typename V::Rows rows(first, stride);
    int64_t k = 0;
    for (; k + step <= columns; k += step, panel += step) {
      Int last = V::zero_int();
      take_step(rows, [&](auto i, Float w) MARTLET_INLINED {
        panel[i].w[r] = w;
        last = V::as_int(w);
      });
      rows.advance(16);
      ahead = V::template prefetch<16 * V::lanes>(ahead, last);
    }
    for (; k < columns; ++k, ++panel) {
      panel->w[r] = U::template single<V>(rows);
      rows.advance(U::bytes);
    }
  }

  template <int T>
  static void sweep(const Panel* panel, int64_t columns, const Activation* (&x)[T], Float (&y)[V::panel_vectors][T]) {
    constexpr int R = V::panel_vectors;
    Float sum[R][T];
    unroll<R>([&](auto r) MARTLET_INLINED { unroll<T>([&](auto t) MARTLET_INLINED { sum[r][t] = V::zero(); }); });
    for (int64_t k = 0; k < columns; ++k) {
      unroll<T>([&](auto t) MARTLET_INLINED {
        Float value = V::broadcast(x[t][k]);
        unroll<R>([&](auto r) MARTLET_INLINED { sum[r][t] = V::fma(panel[k].w[r], value, sum[r][t]); });
      });
    }
    unroll<R>([&](auto r) MARTLET_INLINED { unroll<T>([&](auto t) MARTLET_INLINED { y[r][t] = sum[r][t]; }); });
  }
};

}  // namespace
}  // namespace martlet::cpu
