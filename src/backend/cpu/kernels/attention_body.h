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

  // The same sums with floats that are there once for all rows: sums[i][j] += a[i][k] * b[k][j], k below `depth`, where
  // j counts vectors.
  template <int Rows, int Vectors>
  MARTLET_INLINE static void multiply(Matrix<const float> a, int64_t depth, Matrix<const float> b,
                                      typename V::Float (&sums)[Rows][Vectors]) {
    MARTLET_UNROLL_SOME for (int64_t k = 0; k < depth; ++k) {
      typename V::Float factors[Rows];
      MARTLET_UNROLL for (int i = 0; i < Rows; ++i) factors[i] = V::broadcast(a.first[i * a.stride + k]);
      MARTLET_UNROLL for (int j = 0; j < Vectors; ++j) {
        const auto column = V::load(b.first + k * b.stride + j * V::lanes);
        MARTLET_UNROLL for (int i = 0; i < Rows; ++i) sums[i][j] = V::fma(factors[i], column, sums[i][j]);
      }
    }
  }

  // Scores of Rows queries and Vectors vectors of tokens from `token` on.
  template <int Block, int Rows, int Vectors>
  MARTLET_INLINE static void score_floats(Matrix<const float> queries, int64_t key_size, const PageMatrix& keys,
                                          int64_t token, Matrix<float> scores) {
    for (int64_t begin = 0, end = 0; begin < key_size; begin = end) {
      end = Block == 0 || key_size - begin < Block ? key_size : begin + Block;
      typename V::Float sums[Rows][Vectors];
      MARTLET_UNROLL for (auto& of_query : sums) {
        MARTLET_UNROLL for (auto& sum : of_query) sum = V::zero();
      }
      multiply<Rows, Vectors>({queries.first + begin, queries.stride}, end - begin,
                              {keys.floats + begin * kPageTokens + token, kPageTokens}, sums);
      MARTLET_UNROLL for (int i = 0; i < Rows; ++i) {
        MARTLET_UNROLL for (int j = 0; j < Vectors; ++j) {
          const int64_t first = token + j * V::lanes;
          float* to = scores.first + i * scores.stride + first;
          if constexpr (Block != 0) {
            const auto scale = V::load_bfloat16(keys.scales + begin / Block * kPageTokens + first);
            sums[i][j] = V::fma(sums[i][j], scale, begin == 0 ? V::zero() : V::load(to));
          }
          V::store(to, sums[i][j]);
        }
      }
    }
  }

  // Sums of Rows queries and Vectors vectors of values from `column` on, all of one block.
  template <int Block, int Rows, int Vectors>
  MARTLET_INLINE static void sum_floats(Matrix<const float> weights, int64_t tokens, const PageMatrix& values,
                                        int64_t value_size, int64_t column, Matrix<float> out, bool add) {
    alignas(64) float scaled[Block == 0 ? 1 : Rows * kPageTokens];
    if constexpr (Block != 0) {
      scale_weights<Rows, 1>(weights, values.scales + column / Block * kPageTokens, scaled);
      weights = {scaled, kPageTokens};
    }
    typename V::Float sums[Rows][Vectors];
    MARTLET_UNROLL for (int i = 0; i < Rows; ++i) {
      MARTLET_UNROLL for (int j = 0; j < Vectors; ++j) sums[i][j] =
          add ? V::load(out.first + i * out.stride + column + j * V::lanes) : V::zero();
    }
    multiply<Rows, Vectors>(weights, tokens, {values.floats + column, value_size}, sums);
    MARTLET_UNROLL for (int i = 0; i < Rows; ++i) {
      MARTLET_UNROLL for (int j = 0; j < Vectors; ++j)
          V::store(out.first + i * out.stride + column + j * V::lanes, sums[i][j]);
    }
  }

  // Calls tile(count, width, i) for groups of rows from row i on, Most at a time while there are so many. Few rows take
  // wider tiles, so that there are enough independent chains to hide a multiply-add's latency.
  template <int Most, int Width, int WidestOfOne, class Tile>
  MARTLET_INLINE static void each_group(int64_t rows, Tile&& tile) {
    int64_t i = 0;
    const auto group = [&](auto count, auto width) MARTLET_INLINED {
      tile(count, width, i);
      i += count;
    };
    while (rows - i >= Most) group(std::integral_constant<int, Most>{}, std::integral_constant<int, Width>{});
    if constexpr (Most > 4) {
      if (rows - i >= 4) group(std::integral_constant<int, 4>{}, std::integral_constant<int, Width>{});
    }
    if constexpr (Most > 3) {
      if (rows - i == 3) group(std::integral_constant<int, 3>{}, std::integral_constant<int, Width>{});
    }
    if constexpr (Most > 2) {
      if (rows - i == 2) group(std::integral_constant<int, 2>{}, std::integral_constant<int, 2>{});
    }
    if (rows - i == 1) group(std::integral_constant<int, 1>{}, std::integral_constant<int, WidestOfOne>{});
  }
  // Few rows read a page as it is stored. Six rows and one wide fill the sixteen registers of AVX2; longer vectors have
  // room for two wides.
  template <int WidestOfOne, class Tile>
  MARTLET_INLINE static void each_stored_group(int64_t rows, Tile&& tile) {
    each_group<V::panel_tokens, V::lanes == 16 ? 2 : 1, WidestOfOne>(rows, tile);
  }
  // Many rows share its floats. On AVX2 the factors of three rows and one column beside twelve sums fill the registers:
  // 19 instructions for twelve multiply-adds, where six rows that unpack two columns for themselves take 27.
  template <class Tile>
  MARTLET_INLINE static void each_shared_group(int64_t rows, Tile&& tile) {
    constexpr int kMost = V::lanes == 8 && V::panel_tokens > 3 ? 3 : V::panel_tokens;
    each_group<kMost, V::lanes == 4 ? 1 : 2, 2>(rows, tile);
  }
  // Rows from which on that pays for unpacking: even at twelve on AVX2.
  static constexpr int64_t kSharingRows = 16;

  // What rows `begin` to `end` of `rows` fetch of `bytes` bytes, so that all together fetch them at an even pace.
  MARTLET_INLINE static void fetch_share(const std::byte* next, int64_t bytes, int64_t begin, int64_t end,
                                         int64_t rows) {
    for (int64_t line = bytes * begin / rows / 64 * 64; line < bytes * end / rows; line += 64)
      __builtin_prefetch(next + line);
  }

  // To keys.floats: [value of the head][token].
  template <class Type>
  MARTLET_INLINE static void unpack_keys(const PageMatrix& keys, int64_t key_size) {
    constexpr CacheFormat format = format_of(Type::type);
    const std::byte* row = keys.elements;
    for (int64_t k = 0; k < key_size; k += format.packed, row += format.key_row_bytes()) {
      for (int64_t token = 0; token < kPageTokens; token += W::size) {
        W columns[format.packed];
        Type::template keys<V>(row, token, columns);
        MARTLET_UNROLL for (int p = 0; p < format.packed; ++p) columns[p].store(keys.floats + (k + p) * kPageTokens +
                                                                                token);
      }
    }
  }
  // To values.floats: [token][value of the head].
  template <class Type>
  MARTLET_INLINE static void unpack_values(const PageMatrix& values, int64_t tokens, int64_t value_size) {
    const std::byte* row = values.elements;
    float* out = values.floats;
    for (int64_t t = 0; t < tokens; ++t, row += format_of(Type::type).row_bytes(value_size)) {
      for (int64_t column = 0; column < value_size; column += W::size, out += W::size)
        Type::template values<V>(row, column).store(out);
    }
  }

  // Rows that share keys.floats, which came from `bytes` bytes of the cache.
  template <int Block>
  static void score_shared(Matrix<const float> queries, int64_t rows, int64_t key_size, const PageMatrix& keys,
                           int64_t bytes, Matrix<float> scores) {
    each_shared_group(rows, [&](auto count, auto width, int64_t i) MARTLET_INLINED {
      fetch_share(keys.next, bytes, i, i + count, rows);
      for (int64_t token = 0; token < kPageTokens; token += width * W::size)
        score_floats<Block, count, width * W::parts>({queries.first + i * queries.stride, queries.stride}, key_size,
                                                     keys, token, {scores.first + i * scores.stride, scores.stride});
    });
  }

  template <class Type>
  static void score(Matrix<const float> queries, int64_t rows, int64_t key_size, const PageMatrix& keys,
                    Matrix<float> scores) {
    constexpr CacheFormat format = format_of(Type::type);
    if (rows >= kSharingRows) {
      unpack_keys<Type>(keys, key_size);
      return score_shared<format.block>(queries, rows, key_size, keys, format.key_bytes(key_size), scores);
    }
    each_stored_group<2>(rows, [&](auto count, auto width, int64_t i) MARTLET_INLINED {
      for (int64_t token = 0; token < kPageTokens; token += width * W::size)
        score_tile<Type, count, width>({queries.first + i * queries.stride, queries.stride}, key_size, keys, token,
                                       {scores.first + i * scores.stride, scores.stride});
    });
  }

  // Calls tile(width, column) for tiles that are as wide as fits.
  template <int Width, class Tile>
  MARTLET_INLINE static void each_column(int64_t value_size, Tile&& tile, int64_t column = 0) {
    for (; column + Width * W::size <= value_size; column += Width * W::size)
      tile(std::integral_constant<int, Width>{}, column);
    if constexpr (Width > 1) each_column<Width / 2>(value_size, tile, column);
  }

  // Rows that share values.floats, which came from `bytes` bytes of the cache.
  template <int Block>
  static void sum_shared(Matrix<const float> weights, int64_t rows, int64_t tokens, const PageMatrix& values,
                         int64_t value_size, int64_t bytes, Matrix<float> out, bool add) {
    each_shared_group(rows, [&](auto count, auto widest, int64_t i) MARTLET_INLINED {
      fetch_share(values.next, bytes, i, i + count, rows);
      each_column<widest>(value_size, [&](auto width, int64_t column) MARTLET_INLINED {
        sum_floats<Block, count, width * W::parts>({weights.first + i * weights.stride, weights.stride}, tokens, values,
                                                   value_size, column, {out.first + i * out.stride, out.stride}, add);
      });
    });
  }

  template <class Type>
  static void sum(Matrix<const float> weights, int64_t rows, int64_t tokens, const PageMatrix& values,
                  int64_t value_size, Matrix<float> out, bool add) {
    constexpr CacheFormat format = format_of(Type::type);
    if (rows >= kSharingRows) {
      unpack_values<Type>(values, tokens, value_size);
      return sum_shared<format.block>(weights, rows, tokens, values, value_size, format.value_bytes(value_size), out,
                                      add);
    }
    each_stored_group<4>(rows, [&](auto count, auto widest, int64_t i) MARTLET_INLINED {
      each_column<widest>(value_size, [&](auto width, int64_t column) MARTLET_INLINED {
        sum_tile<Type, count, width>({weights.first + i * weights.stride, weights.stride}, tokens, values,
                                     format.row_bytes(value_size), column, {out.first + i * out.stride, out.stride},
                                     add);
      });
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
        x.part[p] = exp_not_above_one<V>(V::sub(x.part[p], V::broadcast(largest)));
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
