#pragma once

// The inner loop of all integer kernels: columns of codes of R row vectors times the codes of T tokens.

#include "backend/cpu/isa/unroll.h"

namespace martlet::cpu {
namespace {

// Whether the level multiplies two tokens at once.
template <class V>
concept PairsTokens = requires {
  typename V::TokenPair;
};

template <class V, int Columns, int R, int T, class Code, class Fold>
MARTLET_INLINE void dot_token_pairs(Code code, const int8_t* const (&x)[T], Fold fold) {
  typename V::TokenPair sum[R][T / 2];
  unroll<R>([&](auto r)
                MARTLET_INLINED { unroll<T / 2>([&](auto t) MARTLET_INLINED { sum[r][t] = V::pair_zero(); }); });
  unroll<Columns / 2>([&](auto two) MARTLET_INLINED {
    constexpr std::integral_constant<int, 2 * two> k;
    constexpr std::integral_constant<int, 2 * two + 1> next;
    unroll<R>([&](auto r) MARTLET_INLINED {
      typename V::Int w = code(r, k), w_next = code(r, next);
      unroll<T / 2>([&](auto t) MARTLET_INLINED {
        sum[r][t] = V::pair_dot(sum[r][t], w, w_next, x[2 * t] + 4 * k, x[2 * t + 1] + 4 * k);
      });
    });
  });
  unroll<R>([&](auto r) MARTLET_INLINED {
    unroll<T / 2>([&](auto t) MARTLET_INLINED {
      fold(r, std::integral_constant<int, 2 * t>{}, V::pair_first(sum[r][t]));
      fold(r, std::integral_constant<int, 2 * t + 1>{}, V::pair_second(sum[r][t]));
    });
  });
}

// code(r, k): column k (four codes a row) of row vector r, prepared. x[t]: 4 * Columns codes of token t.
// fold(r, t, partial) receives the sums, in as many pieces as the level's exact depth asks for.
template <class V, Codes C, int Columns, int R, int T, class Code, class Fold>
MARTLET_INLINE void dot_columns(Code code, const int8_t* const (&x)[T], Fold fold) {
  if constexpr (PairsTokens<V> && T % 2 == 0) {
    dot_token_pairs<V, Columns, R, T>(code, x, fold);
  } else {
    constexpr int depth = V::template depth<C> < Columns ? V::template depth<C> : Columns;
    unroll<Columns / depth>([&](auto run) MARTLET_INLINED {
      typename V::Partial partial[R][T];
      unroll<depth>([&](auto step) MARTLET_INLINED {
        constexpr std::integral_constant<int, run * depth + step> k;
        typename V::Int w[R];
        MARTLET_UNROLL for (int r = 0; r < R; ++r) w[r] = code(r, k);
        MARTLET_UNROLL for (int t = 0; t < T; ++t) {
          typename V::Int four = V::broadcast_four(x[t] + 4 * k);
          MARTLET_UNROLL for (int r = 0; r < R; ++r) {
            if constexpr (step == 0) {
              partial[r][t] = V::template dot<C>(w[r], four);
            } else {
              partial[r][t] = V::template dot<C>(partial[r][t], w[r], four);
            }
          }
        }
      });
      MARTLET_UNROLL for (int r = 0; r < R; ++r) {
        MARTLET_UNROLL for (int t = 0; t < T; ++t) fold(r, t, partial[r][t]);
      }
    });
  }
}

// A panel swept block after block over T tokens, for kernels whose add_block adds one block's products.
template <class V, class Kernel>
struct BlockSweep {
  template <int T, class Panel, class Activation>
  static void sweep(const Panel* panel, int64_t columns, const Activation* (&x)[T],
                    typename V::Float (&y)[V::panel_vectors][T]) {
    for (auto& row : y) {
      for (typename V::Float& value : row) value = V::zero();
    }
    for (int64_t b = Kernel::blocks(columns); b > 0; --b, ++panel) {
      Kernel::template add_block<V::panel_vectors, T>(*panel, x, y);
      unroll<T>([&](auto t) MARTLET_INLINED { ++x[t]; });
    }
  }
};

// What a level's kernels multiply more than the format's codes say, and what must be taken off again.
template <class V, class U>
inline constexpr int kBias = U::zero + (U::codes == Codes::s8 ? V::signed_bias : 0);

}  // namespace
}  // namespace martlet::cpu
