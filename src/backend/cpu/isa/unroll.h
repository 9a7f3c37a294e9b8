#pragma once

// Loops whose counter is a constant of each turn: arrays indexed by it live in registers at every optimisation level.
// Included inside a level's target region, hence the unnamed namespace: each level compiles its own.

#include <type_traits>
#include <utility>

#define MARTLET_INLINE [[gnu::always_inline]] inline
// After the parameters of a lambda: kernels are one function each, however often a piece is used.
#define MARTLET_INLINED __attribute__((always_inline))
// Before a short loop whose counter need not be a constant; compiles faster than unroll().
#define MARTLET_UNROLL _Pragma("GCC unroll 16")
// Before an inner loop of any length, whose counting costs as much as part of its body.
#define MARTLET_UNROLL_SOME _Pragma("GCC unroll 4")

namespace martlet::cpu {
namespace {

// How large the codes are that a dot product multiplies: unsigned below 16, 32 or 64, or signed bytes -127..127.
// (-128 is allowed too: activations never are.)
enum class Codes { u4, u5, u6, s8 };

template <int Count, class Body>
MARTLET_INLINE void unroll(Body&& body) {
  [&]<int... I>(std::integer_sequence<int, I...>) MARTLET_INLINED {
    (body(std::integral_constant<int, I>{}), ...);
  }
  (std::make_integer_sequence<int, Count>{});
}

}  // namespace
}  // namespace martlet::cpu
