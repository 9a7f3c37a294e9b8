#pragma once

// Sixteen floats, whatever the vector length: sums over them are added in the same order at every level.

#include "backend/cpu/isa/unroll.h"

namespace martlet::cpu {
namespace {

template <class V>
struct Wide {
  static constexpr int size = 16;
  static constexpr int parts = size / V::lanes;
  typename V::Float part[parts];

  MARTLET_INLINE static Wide zero() { return broadcast(0.0f); }
  MARTLET_INLINE static Wide broadcast(float x) {
    Wide w;
    unroll<parts>([&](auto i) MARTLET_INLINED { w.part[i] = V::broadcast(x); });
    return w;
  }
  MARTLET_INLINE static Wide load(const float* p) {
    Wide w;
    unroll<parts>([&](auto i) MARTLET_INLINED { w.part[i] = V::load(p + i * V::lanes); });
    return w;
  }
  MARTLET_INLINE static Wide load_half(const uint16_t* p) {
    Wide w;
    unroll<parts>([&](auto i) MARTLET_INLINED { w.part[i] = V::load_half(p + i * V::lanes); });
    return w;
  }
  MARTLET_INLINE static Wide load_bfloat16(const uint16_t* p) {
    Wide w;
    unroll<parts>([&](auto i) MARTLET_INLINED { w.part[i] = V::load_bfloat16(p + i * V::lanes); });
    return w;
  }
  MARTLET_INLINE void store(float* p) const {
    unroll<parts>([&](auto i) MARTLET_INLINED { V::store(p + i * V::lanes, part[i]); });
  }
  // this += a * b, rounded once
  MARTLET_INLINE void fma(const Wide& a, const Wide& b) {
    unroll<parts>([&](auto i) MARTLET_INLINED { part[i] = V::fma(a.part[i], b.part[i], part[i]); });
  }
  MARTLET_INLINE float sum() const {
    return fold([](auto a, auto b) MARTLET_INLINED { return V::add(a, b); },
                [](auto a) MARTLET_INLINED { return V::sum(a); });
  }
  MARTLET_INLINE float max() const {
    return fold([](auto a, auto b) MARTLET_INLINED { return V::max(a, b); },
                [](auto a) MARTLET_INLINED { return V::max(a); });
  }

 private:
  // Halves upon halves: 16 -> 8 -> 4 -> 2 -> 1, first between vectors, then inside the last.
  template <class Pair, class Last>
  MARTLET_INLINE float fold(Pair pair, Last last) const {
    Wide w = *this;
    if constexpr (parts >= 4)
      unroll<parts / 2>([&](auto i) MARTLET_INLINED { w.part[i] = pair(w.part[i], w.part[i + parts / 2]); });
    if constexpr (parts >= 2) w.part[0] = pair(w.part[0], w.part[1]);
    return last(w.part[0]);
  }
};

}  // namespace
}  // namespace martlet::cpu
