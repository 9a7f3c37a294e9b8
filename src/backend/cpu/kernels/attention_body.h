#pragma once

// Bodies of AttentionKernels on a level's vocabulary V; included inside its target region.

#include "backend/cpu/isa/exp.h"
#include "backend/cpu/isa/wide.h"
#include "backend/cpu/kernels/cached.h"

namespace martlet::cpu {
namespace {

template <class V>
struct AttentionBody {
  using W = Wide<V>;

  // Fetches what lies as far behind `next` as a row of `Bytes` bytes does behind the matrix that is being read.
  template <int Bytes>
  MARTLET_INLINE static void fetch(const std::byte* next) {
    for (int line = 0; line < Bytes; line += 64) __builtin_prefetch(next + line);
  }

  // One register tile of scores: Rows queries times Width wides of tokens from `token` on.
  template <class Type, int Rows, int Width>
  MARTLET_INLINE static void score_tile(Matrix<const float> queries, int64_t key_size, const PageMatrix& keys,
                                        int64_t token, Matrix<float> scores) {
    constexpr CacheFormat format = format_of(Type::type);
    const int64_t start = token * format.element_bytes;
    for (int64_t k = 0, row = 0, block = 0; k < key_size; ++block) {
      const int64_t end = format.block == 0 || key_size - k < format.block ? key_size : k + format.block;
      W sums[Rows][Width];
      MARTLET_UNROLL for (auto& of_query : sums) {
        MARTLET_UNROLL for (W& sum : of_query) sum = W::zero();
      }
      for (; k < end; k += format.packed, row += format.key_row_bytes()) {
        fetch<Width * W::size * format.element_bytes>(keys.next + row + start);
        W columns[Width][format.packed];
        MARTLET_UNROLL for (int j = 0; j < Width; ++j)
            Type::template keys<V>(keys.elements + row, token + j * W::size, columns[j]);
        MARTLET_UNROLL for (int p = 0; p < format.packed; ++p) {
          MARTLET_UNROLL for (int i = 0; i < Rows; ++i) {
            const W factor = W::broadcast(queries.first[i * queries.stride + k + p]);
            MARTLET_UNROLL for (int j = 0; j < Width; ++j) sums[i][j].fma(factor, columns[j][p]);
          }
        }
      }
      MARTLET_UNROLL for (int i = 0; i < Rows; ++i) {
        MARTLET_UNROLL for (int j = 0; j < Width; ++j) {
          const int64_t first = token + j * W::size;
          float* to = scores.first + i * scores.stride + first;
          if constexpr (format.block != 0) {
            W total = block == 0 ? W::zero() : W::load(to);
            total.fma(sums[i][j], W::load_bfloat16(keys.scales + block * kPageTokens + first));
            sums[i][j] = total;
          }
          sums[i][j].store(to);
        }
      }
    }
  }

  // The weights of a tile's queries times the scales of their tokens, for each of `Blocks` blocks of values.
  template <int Rows, int Blocks>
  MARTLET_INLINE static void scale_weights(Matrix<const float> weights, const uint16_t* scales, float* out) {
    for (int64_t t = 0; t < Blocks * kPageTokens; t += V::lanes) {
      const auto scale = V::load_bfloat16(scales + t);
      MARTLET_UNROLL for (int i = 0; i < Rows; ++i) {
        const float* weight = weights.first + i * weights.stride + t % kPageTokens;
        V::store(out + i * Blocks * kPageTokens + t, V::mul(V::load(weight), scale));
      }
    }
  }

  // One register tile of sums: Rows queries times Width wides of values from `column` on.
  template <class Type, int Rows, int Width>
  MARTLET_INLINE static void sum_tile(Matrix<const float> weights, int64_t tokens, const PageMatrix& values,
                                      int64_t row_bytes, int64_t column, Matrix<float> out, bool add) {
    constexpr CacheFormat format = format_of(Type::type);
    constexpr int shared = format.block == 0 ? Width : format.block / W::size;  // wides with the same factors
    constexpr int blocks = (Width + shared - 1) / shared;
    alignas(64) float scaled[format.block == 0 ? 1 : Rows * blocks * kPageTokens];
    if constexpr (format.block != 0) {
      scale_weights<Rows, blocks>(weights, values.scales + column / format.block * kPageTokens, scaled);
      weights = {scaled, blocks * kPageTokens};
    }
    W sums[Rows][Width];
    MARTLET_UNROLL for (int i = 0; i < Rows; ++i) {
      MARTLET_UNROLL for (int j = 0; j < Width; ++j) sums[i][j] =
          add ? W::load(out.first + i * out.stride + column + j * W::size) : W::zero();
    }
    const std::byte *row = values.elements, *next = values.next + column * format.element_bytes / format.packed;
    for (int64_t t = 0; t < tokens; ++t, row += row_bytes, next += row_bytes) {
      fetch<Width * W::size * format.element_bytes / format.packed>(next);
      W columns[Width];
      MARTLET_UNROLL for (int j = 0; j < Width; ++j) columns[j] = Type::template values<V>(row, column + j * W::size);
      MARTLET_UNROLL for (int i = 0; i < Rows; ++i) {
        MARTLET_UNROLL for (int j = 0; j < Width; ++j) sums[i][j].fma(
            W::broadcast(weights.first[i * weights.stride + j / shared * kPageTokens + t]), columns[j]);
      }
    }
    MARTLET_UNROLL for (int i = 0; i < Rows; ++i) {
      MARTLET_UNROLL for (int j = 0; j < Width; ++j) sums[i][j].store(out.first + i * out.stride + column +
                                                                      j * W::size);
    }
  }

  // Calls tile(count, width, i) for groups of rows from row i on, as large as the registers hold. Few rows take wider
  // tiles, so that there are enough independent chains to hide a multiply-add's latency. Six rows and one wide fill the
  // sixteen registers of AVX2; longer vectors have room for two wides.
  template <int WidestOfOne, class Tile>
  MARTLET_INLINE static void each_group(int64_t rows, Tile&& tile) {
    constexpr int kMost = V::panel_tokens, kWidth = V::lanes == 16 ? 2 : 1;
    int64_t i = 0;
    const auto group = [&](auto count, auto width) MARTLET_INLINED {
      tile(count, width, i);
      i += count;
    };
    if constexpr (kMost > 4) {
      while (rows - i >= kMost) group(std::integral_constant<int, kMost>{}, std::integral_constant<int, kWidth>{});
    }
    if constexpr (kMost >= 4) {
      while (rows - i >= 4) group(std::integral_constant<int, 4>{}, std::integral_constant<int, kWidth>{});
      if (rows - i == 3) group(std::integral_constant<int, 3>{}, std::integral_constant<int, kWidth>{});
    }
    while (rows - i >= 2) group(std::integral_constant<int, 2>{}, std::integral_constant<int, 2>{});
    if (rows - i == 1) group(std::integral_constant<int, 1>{}, std::integral_constant<int, WidestOfOne>{});
  }

  template <class Type>
  static void score(Matrix<const float> queries, int64_t rows, int64_t key_size, const PageMatrix& keys,
                    Matrix<float> scores) {
    each_group<2>(rows, [&](auto count, auto width, int64_t i) MARTLET_INLINED {
      for (int64_t token = 0; token < kPageTokens; token += width * W::size)
        score_tile<Type, count, width>({queries.first + i * queries.stride, queries.stride}, key_size, keys, token,
                                       {scores.first + i * scores.stride, scores.stride});
    });
  }

  // From `column` on, in tiles that are as wide as fits.
  template <class Type, int Rows, int Width>
  MARTLET_INLINE static void sum_rows(Matrix<const float> weights, int64_t tokens, const PageMatrix& values,
                                      int64_t value_size, Matrix<float> out, bool add, int64_t column = 0) {
    const int64_t row_bytes = format_of(Type::type).row_bytes(value_size);
    for (; column + Width * W::size <= value_size; column += Width * W::size)
      sum_tile<Type, Rows, Width>(weights, tokens, values, row_bytes, column, out, add);
    if constexpr (Width > 1) sum_rows<Type, Rows, Width / 2>(weights, tokens, values, value_size, out, add, column);
  }

  template <class Type>
  static void sum(Matrix<const float> weights, int64_t rows, int64_t tokens, const PageMatrix& values,
                  int64_t value_size, Matrix<float> out, bool add) {
    each_group<4>(rows, [&](auto count, auto width, int64_t i) MARTLET_INLINED {
      sum_rows<Type, count, width>({weights.first + i * weights.stride, weights.stride}, tokens, values, value_size,
                                   {out.first + i * out.stride, out.stride}, add);
    });
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

  static void mix(float* x, int64_t size) {
    const int64_t part = size & -size;
    const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(part));
    for (int64_t distance = 1; distance < part; distance *= 2) {
      for (int64_t i = 0; i < size; i += 2 * distance) {
        for (int64_t j = i; j < i + distance; ++j) {
          const float a = x[j], b = x[j + distance];
          x[j] = a + b, x[j + distance] = a - b;
        }
      }
    }
    for (int64_t i = 0; i < size; ++i) x[i] *= scale;
  }
};

template <class V, class Type>
inline constexpr CacheKernels cache_kernels = {AttentionBody<V>::template score<Type>,
                                               AttentionBody<V>::template sum<Type>, Type::template encode<V>};

template <class V>
inline constexpr AttentionKernels attention_kernels = {
    {cache_kernels<V, CachedF32>, cache_kernels<V, CachedF16>, cache_kernels<V, CachedBf16>, cache_kernels<V, CachedQ8>,
     cache_kernels<V, CachedQ4>},
    AttentionBody<V>::soften,
    AttentionBody<V>::merge,
    AttentionBody<V>::divide,
    AttentionBody<V>::mix};

}  // namespace
}  // namespace martlet::cpu
