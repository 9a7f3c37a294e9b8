#pragma once

// Bodies of VectorKernels on a level's vocabulary V; included inside its target region.

#include "backend/cpu/isa/exp.h"
#include "backend/cpu/isa/wide.h"

namespace martlet::cpu {
namespace {

template <class V>
struct VectorBody {
  using W = Wide<V>;

  // Calls body(offset, count) on whole wides and once on what is left.
  template <class Body>
  MARTLET_INLINE static void each_wide(int64_t size, Body&& body) {
    int64_t i = 0;
    for (; i + W::size <= size; i += W::size) body(i, int64_t{W::size});
    if (i < size) body(i, size - i);
  }
  MARTLET_INLINE static W load(const float* p, int64_t count) {
    if (count == W::size) return W::load(p);
    alignas(64) float padded[W::size] = {};
    for (int64_t i = 0; i < count; ++i) padded[i] = p[i];
    return W::load(padded);
  }
  MARTLET_INLINE static void store(const W& x, float* p, int64_t count) {
    if (count == W::size) return x.store(p);
    alignas(64) float padded[W::size];
    x.store(padded);
    for (int64_t i = 0; i < count; ++i) p[i] = padded[i];
  }

  static void rms_norm(const float* x, const float* weight, float epsilon, int64_t size, float* out) {
    W squares = W::zero();
    each_wide(
        size, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
          const W v = load(x + i, count);
          squares.fma(v, v);
        });
    const auto factor = V::broadcast(1.0f / __builtin_sqrtf(squares.sum() / static_cast<float>(size) + epsilon));
    each_wide(
        size, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
          W v = load(x + i, count);
          const W w = load(weight + i, count);
          unroll<W::parts>([&](auto p) { v.part[p] = V::mul(V::mul(v.part[p], factor), w.part[p]); });
          store(v, out + i, count);
        });
  }

  static void silu_gated(const float* gate, const float* up, int64_t size, float* out) {
    const auto one = V::broadcast(1.0f);
    each_wide(
        size, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
          W g = load(gate + i, count);
          const W u = load(up + i, count);
          unroll<W::parts>([&](auto p) {
            const auto e = exp<V>(V::sub(V::zero(), g.part[p]));
            g.part[p] = V::mul(V::div(g.part[p], V::add(one, e)), u.part[p]);
          });
          store(g, out + i, count);
        });
  }

  MARTLET_INLINE static float rotated(float x, float partner, float cosine, float sine) {
    return __builtin_fmaf(partner, sine, x * cosine);
  }
  MARTLET_INLINE static auto rotated(const float* x, typename V::Float partner, const float* cosine,
                                     const float* sine) {
    return V::fma(partner, V::load(sine), V::mul(V::load(x), V::load(cosine)));
  }

  static void rotate(float* x, const float* cosines, const float* sines, int64_t size, bool halves) {
    if (halves) {
      const int64_t pairs = size / 2;
      float* y = x + pairs;
      int64_t i = 0;
      for (; i + V::lanes <= pairs; i += V::lanes) {
        const auto first = rotated(x + i, V::load(y + i), cosines + i, sines + i);
        const auto second = rotated(y + i, V::load(x + i), cosines + pairs + i, sines + pairs + i);
        V::store(x + i, first);
        V::store(y + i, second);
      }
      for (; i < pairs; ++i) {
        const float first = rotated(x[i], y[i], cosines[i], sines[i]);
        y[i] = rotated(y[i], x[i], cosines[pairs + i], sines[pairs + i]);
        x[i] = first;
      }
      return;
    }
    int64_t i = 0;
    for (; i + V::lanes <= size; i += V::lanes)
      V::store(x + i, rotated(x + i, V::swap_neighbours(V::load(x + i)), cosines + i, sines + i));
    for (; i < size; i += 2) {
      const float first = rotated(x[i], x[i + 1], cosines[i], sines[i]);
      x[i + 1] = rotated(x[i + 1], x[i], cosines[i + 1], sines[i + 1]);
      x[i] = first;
    }
  }

  static void scale(float* x, float factor, int64_t size) {
    int64_t i = 0;
    for (; i + V::lanes <= size; i += V::lanes) V::store(x + i, V::mul(V::load(x + i), V::broadcast(factor)));
    for (; i < size; ++i) x[i] *= factor;
  }
};

template <class V>
inline constexpr VectorKernels vector_kernels = {VectorBody<V>::rms_norm, VectorBody<V>::silu_gated,
                                                 VectorBody<V>::rotate, VectorBody<V>::scale};

}  // namespace
}  // namespace martlet::cpu
