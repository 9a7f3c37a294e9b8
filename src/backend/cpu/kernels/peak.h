#pragma once

// The most that a level's 8-bit products can do: the inner loop of the panel kernel without unpacking, scales or sums
// in 32 bits. Kernels are measured against it.

#include "backend/cpu/isa/unroll.h"

namespace martlet::cpu {
namespace {

template <class V>
int64_t run_peak(int64_t steps) {
  constexpr int R = V::panel_vectors, T = V::panel_tokens;
  alignas(64) uint8_t codes[R][V::lanes * 4] = {};
  int8_t x[T][4] = {};
  typename V::Partial sum[R][T];
  unroll<R>([&](auto r) MARTLET_INLINED {
    unroll<T>([&](auto t) MARTLET_INLINED {
      sum[r][t] = V::template dot<Codes::u4>(V::load_int(codes[r]), V::broadcast_four(x[t]));
    });
  });
  // Four steps a turn: where a turn ends, compilers move sums from register to register.
  constexpr int kTurn = 4;
  int64_t done = 0;
  for (; done < steps; done += kTurn) {
    unroll<kTurn>([&](auto) MARTLET_INLINED {
      asm volatile("" : : "r"(codes), "r"(x) : "memory");  // the compiler must read both again
      // Token after token, as the kernels do: with the codes of all held at once, sums would not fit in registers.
      unroll<T>([&](auto t) MARTLET_INLINED {
        typename V::Int four = V::broadcast_four(x[t]);
        unroll<R>([&](auto r) MARTLET_INLINED {
          sum[r][t] = V::template dot<Codes::u4>(sum[r][t], V::load_int(codes[r]), four);
        });
      });
    });
  }
  typename V::Int total = V::zero_int();
  unroll<R>([&](auto r)
                MARTLET_INLINED { unroll<T>([&](auto t) MARTLET_INLINED { total = V::fold(total, sum[r][t]); }); });
  volatile int32_t kept = V::sum_int(total);
  (void)kept;
  return done * R * T * V::lanes * 8;
}

}  // namespace
}  // namespace martlet::cpu
