#pragma once

// Bodies of AttentionKernels on a level's vocabulary V; included inside its target region.

#include "backend/cpu/isa/exp.h"
#include "backend/cpu/isa/wide.h"

namespace martlet::cpu {
namespace {

template <class V>
struct AttentionBody {
  using W = Wide<V>;

  MARTLET_INLINE static W load(const float* p) { return W::load(p); }
  MARTLET_INLINE static W load(const uint16_t* p) { return W::load_half(p); }

  // One register tile: Rows rows times Width wides of columns.
  template <int Rows, int Width, class B>
  MARTLET_INLINE static void tile(const float* a, int64_t a_stride, int64_t depth, const B* b, int64_t b_stride,
                                  float* c, int64_t c_stride, bool add, const std::byte* next) {
    W sums[Rows][Width];
    unroll<Rows>([&](auto i) {
      unroll<Width>([&](auto j) { sums[i][j] = add ? W::load(c + i * c_stride + j * W::size) : W::zero(); });
    });
    for (int64_t k = 0; k < depth; ++k) {
      if constexpr (sizeof(B) == 2) {
        for (int line = 0; line < Width; line += 2)  // a line holds two wides of halves
          __builtin_prefetch(next + (k * b_stride + line * W::size) * static_cast<int64_t>(sizeof(B)));
      }
      W column[Width];
      unroll<Width>([&](auto j) { column[j] = load(b + k * b_stride + j * W::size); });
      unroll<Rows>([&](auto i) {
        const W factor = W::broadcast(a[i * a_stride + k]);
        unroll<Width>([&](auto j) { sums[i][j].fma(factor, column[j]); });
      });
    }
    unroll<Rows>([&](auto i) { unroll<Width>([&](auto j) { sums[i][j].store(c + i * c_stride + j * W::size); }); });
  }

  // `Rows` rows from column j on, in tiles that are as wide as fits.
  template <int Rows, int Width, class B>
  MARTLET_INLINE static void row_group(const float* a, int64_t a_stride, int64_t depth, const B* b, int64_t b_stride,
                                       int64_t columns, float* c, int64_t c_stride, bool add, const std::byte* next,
                                       int64_t j = 0) {
    for (; j + Width * W::size <= columns; j += Width * W::size) {
      tile<Rows, Width>(a, a_stride, depth, b + j, b_stride, c + j, c_stride, add,
                        next + j * static_cast<int64_t>(sizeof(B)));
    }
    if constexpr (Width > 1)
      row_group<Rows, Width / 2>(a, a_stride, depth, b, b_stride, columns, c, c_stride, add, next, j);
  }

  // Few rows take wider tiles, so that there are enough independent chains to hide a multiply-add's latency. Six rows
  // and one wide fill the sixteen registers of AVX2; longer vectors have room for two wides.
  template <class B>
  MARTLET_INLINE static void multiply_any(const float* a, int64_t a_stride, int64_t rows, int64_t depth, const B* b,
                                          int64_t b_stride, int64_t columns, float* c, int64_t c_stride, bool add,
                                          const std::byte* next) {
    constexpr int kWidth = V::lanes == 16 ? 2 : 1;
    const auto group = [&](auto count, auto width) MARTLET_INLINED {
      row_group<count, width>(a, a_stride, depth, b, b_stride, columns, c, c_stride, add, next);
      a += count * a_stride, c += count * c_stride, rows -= count;
    };
    while (rows >= 6) group(std::integral_constant<int, 6>{}, std::integral_constant<int, kWidth>{});
    if (rows >= 4) group(std::integral_constant<int, 4>{}, std::integral_constant<int, kWidth>{});
    if (rows == 3) group(std::integral_constant<int, 3>{}, std::integral_constant<int, kWidth>{});
    if (rows == 2) group(std::integral_constant<int, 2>{}, std::integral_constant<int, 2>{});
    if (rows == 1) group(std::integral_constant<int, 1>{}, std::integral_constant<int, 4>{});
  }

  static void multiply(const float* a, int64_t a_stride, int64_t rows, int64_t depth, const float* b, int64_t b_stride,
                       int64_t columns, float* c, int64_t c_stride, bool add) {
    multiply_any(a, a_stride, rows, depth, b, b_stride, columns, c, c_stride, add,
                 reinterpret_cast<const std::byte*>(b));
  }

  static void multiply_halves(const float* a, int64_t a_stride, int64_t rows, int64_t depth, const uint16_t* b,
                              int64_t b_stride, int64_t columns, float* c, int64_t c_stride, bool add,
                              const std::byte* next) {
    multiply_any(a, a_stride, rows, depth, b, b_stride, columns, c, c_stride, add, next);
  }

  static void widen(const uint16_t* from, int64_t count, float* to) {
    for (int64_t i = 0; i < count; i += W::size) W::load_half(from + i).store(to + i);
  }

  static void narrow(const float* from, int64_t count, uint16_t* to) {
    for (int64_t i = 0; i < count; i += V::lanes) V::store_half(to + i, V::load(from + i));
  }

  static Softmax soften(float* scores, int64_t count) {
    const int64_t padded = (count + W::size - 1) / W::size * W::size;
    for (int64_t i = count; i < padded; ++i) scores[i] = -std::numeric_limits<float>::infinity();
    W most = W::broadcast(-std::numeric_limits<float>::infinity());
    for (int64_t i = 0; i < padded; i += W::size) {
      const W x = W::load(scores + i);
      unroll<W::parts>([&](auto p) { most.part[p] = V::max(most.part[p], x.part[p]); });
    }
    const float largest = most.max();
    W sum = W::zero();
    for (int64_t i = 0; i < padded; i += W::size) {
      W x = W::load(scores + i);
      unroll<W::parts>([&](auto p) {
        x.part[p] = exp<V>(V::sub(x.part[p], V::broadcast(largest)));
        sum.part[p] = V::add(sum.part[p], x.part[p]);
      });
      x.store(scores + i);
    }
    return {largest, sum.sum()};
  }

  MARTLET_INLINE static float exponential(float x) {
    alignas(64) float lanes[V::lanes];
    V::store(lanes, exp<V>(V::broadcast(x)));
    return lanes[0];
  }

  static void merge(Softmax& state, float* out, const Softmax& other, const float* other_out, int64_t size) {
    const float largest = state.largest > other.largest ? state.largest : other.largest;
    const float mine = exponential(state.largest - largest), theirs = exponential(other.largest - largest);
    state = {largest, __builtin_fmaf(state.sum, mine, other.sum * theirs)};
    const auto a = V::broadcast(mine), b = V::broadcast(theirs);
    for (int64_t i = 0; i < size; i += V::lanes)
      V::store(out + i, V::fma(V::load(out + i), a, V::mul(V::load(other_out + i), b)));
  }

  static void divide(const float* x, float divisor, int64_t size, float* out) {
    for (int64_t i = 0; i < size; i += V::lanes) V::store(out + i, V::div(V::load(x + i), V::broadcast(divisor)));
  }
};

template <class V>
inline constexpr AttentionKernels attention_kernels = {
    AttentionBody<V>::multiply, AttentionBody<V>::multiply_halves, AttentionBody<V>::widen, AttentionBody<V>::narrow,
    AttentionBody<V>::soften,   AttentionBody<V>::merge,           AttentionBody<V>::divide};

}  // namespace
}  // namespace martlet::cpu
