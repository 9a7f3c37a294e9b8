#pragma once

// exp(x) of a vector, within two units in the last place, with the same bits at every level.

#include "backend/cpu/isa/unroll.h"

namespace martlet::cpu {
namespace {

// 2^e for -126 <= e <= 127
template <class V>
MARTLET_INLINE typename V::Float power_of_two(typename V::Int e) {
  return V::as_float(V::left(V::add(e, V::broadcast(127)), 23));
}

// exp(x - n ln 2) by its Taylor polynomial, for whole n nearest to x / ln 2.
template <class V>
MARTLET_INLINE typename V::Float exp_of_rest(typename V::Float x, typename V::Float n) {
  using Float = typename V::Float;
  Float r =
      V::fnma(n, V::broadcast(0.693359375f), x);  // ln 2 in two parts: the first has few bits, so n times it is exact
  r = V::fnma(n, V::broadcast(-2.12194440e-4f), r);
  Float p = V::broadcast(1.0f / 5040);
  unroll<7>([&](auto i) {  // a loop over an array in memory would cost as much as all the rest
    constexpr float kTaylor[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
    p = V::fma(p, r, V::broadcast(kTaylor[i]));
  });
  return p;
}

// 2^n comes by the exponent field, in two steps so that results near the smallest and largest floats come out. Below
// -104 the result is 0, above 89 infinity; NaN stays NaN.
template <class V>
MARTLET_INLINE typename V::Float exp(typename V::Float x) {
  using Float = typename V::Float;
  using Int = typename V::Int;
  x = V::min(V::broadcast(89.0f), V::max(V::broadcast(-104.0f), x));  // these pick the second operand for NaN
  Float n = V::round(V::mul(x, V::broadcast(1.44269504f)));
  Float p = exp_of_rest<V>(x, n);
  Int whole = V::to_int(n);
  Int half = V::to_int(V::mul(n, V::broadcast(0.5f)));
  return V::mul(V::mul(p, power_of_two<V>(half)), power_of_two<V>(V::sub(whole, half)));
}

// The same for x <= 0 in two thirds of the instructions; exp(-87), 1.6e-38, is the least result. Adding 1.5 * 2^23
// leaves whole numbers in the lowest bits: n, and with 127 more its exponent field.
template <class V>
MARTLET_INLINE typename V::Float exp_not_above_one(typename V::Float x) {
  using Float = typename V::Float;
  constexpr float kWhole = 12'582'912 + 127;
  x = V::max(V::broadcast(-87.0f), x);
  Float shifted = V::fma(x, V::broadcast(1.44269504f), V::broadcast(kWhole));
  Float p = exp_of_rest<V>(x, V::sub(shifted, V::broadcast(kWhole)));
  return V::mul(p, V::as_float(V::left(V::as_int(shifted), 23)));
}

}  // namespace
}  // namespace martlet::cpu
