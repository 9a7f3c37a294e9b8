#pragma once

// The arithmetic of attention over cached keys and values, one set for each instruction level and cache type. Each
// result is one chain of fused multiply-adds in ascending order (within a block of shared scale, and over the blocks),
// so it has the same bits at every level and however the work is cut.

#include <cstddef>
#include <cstdint>

#include "martlet/cache_type.h"

namespace martlet::cpu {

inline constexpr int32_t kPageTokens = 32;

// How values of one head lie in a page. A value is its element's number, times its scale where the type has scales: a
// bfloat16 (the range of f32, and codes are chosen for the scale as it is stored) for `block` values of a token.
//   keys     rows of kPageTokens elements, neighbours are tokens; element t of row r holds the key's value r of token
//   t,
//            or (q4) values 2r in its low and 2r + 1 in its high nibble
//   values   a row for each token; q4: byte b of a group of 16 holds the group's values b (low nibble) and 16 + b
//   scales   [block of values][kPageTokens], behind the elements
// q8 elements are -127..127, q4 nibbles -8..7.
struct CacheFormat {
  int32_t element_bytes;
  int32_t packed;  // values of a head that an element holds
  int32_t block;   // values that share a scale; 0: there are none
  bool mixed;      // heads are turned by a Hadamard matrix before they are stored: see mix()

  constexpr int64_t row_bytes(int64_t size) const {  // of a row of `size` values
    return packed == 1 ? size * element_bytes : (size + 31) / 32 * 16;
  }
  constexpr int64_t key_row_bytes() const { return int64_t{kPageTokens} * element_bytes; }
  constexpr int64_t key_bytes(int64_t size) const { return size / packed * key_row_bytes(); }
  constexpr int64_t value_bytes(int64_t size) const { return kPageTokens * row_bytes(size); }
  constexpr int64_t blocks(int64_t size) const { return block == 0 ? 0 : (size + block - 1) / block; }
  constexpr int64_t scale_bytes(int64_t size) const { return blocks(size) * kPageTokens * 2; }
};
inline constexpr CacheFormat kCacheFormats[] = {
    {4, 1, 0, false}, {2, 1, 0, false}, {2, 1, 0, false}, {1, 1, 32, false}, {1, 2, 32, true}};
inline constexpr int kKeptTypes = static_cast<int>(std::size(kCacheFormats));  // the first ones of CacheType
constexpr const CacheFormat& format_of(CacheType type) {
  return kCacheFormats[static_cast<size_t>(type)];
}

// The keys or the values of one head in one page.
struct PageMatrix {
  const std::byte* elements;
  const uint16_t* scales;
  const std::byte* next;  // what will be read after it: as many bytes are fetched meanwhile, at the pace of the work
  float* floats;          // room for all of its values, where many rows share them
};

// Rows of floats.
template <class T>
struct Matrix {
  T* first;
  int64_t stride;  // in elements
};

// Attention of one query over one span of tokens, before the division by `sum`.
struct Softmax {
  float largest;  // score
  float sum;      // of exp(score - largest)
};

struct CacheKernels {  // for one cache type
  // scores[i][t] = queries[i] * the key of token t, for `rows` queries and every token of the page.
  void (*score)(Matrix<const float> queries, int64_t rows, int64_t key_size, const PageMatrix& keys,
                Matrix<float> scores);
  // sums[i] = or, with `add`, += weights[i][0] * values of token 0 + weights[i][1] * values of token 1 ...; rows of
  // weights are readable up to kPageTokens. value_size is a multiple of 16.
  void (*sum)(Matrix<const float> weights, int64_t rows, int64_t tokens, const PageMatrix& values, int64_t value_size,
              Matrix<float> sums, bool add);
  // One head, its size a multiple of 16, to unpacked elements (a nibble takes a byte) and scales. What is not finite
  // stays so: a block that holds it gets the scale NaN.
  void (*encode)(const float* head, int64_t size, std::byte* elements, uint16_t* scales);
};

struct AttentionKernels {
  CacheKernels cached[kKeptTypes];

  // scores[0 .. count) become exp(score - largest); what follows up to a multiple of 16 is overwritten.
  Softmax (*soften)(float* scores, int64_t count);
  // Brings two spans to one: `out` and `state` take in `other_out`; size is a multiple of 16.
  void (*merge)(Softmax& state, float* out, const Softmax& other, const float* other_out, int64_t size);
  void (*divide)(const float* x, float divisor, int64_t size, float* out);  // size is a multiple of 16
  // Multiplies x by the orthogonal Hadamard matrix of each of its parts, as long as powers of two divide the size. It
  // is its own inverse and keeps dot products; values of very different magnitude, as heads hold them, become alike,
  // which few bits store much better (QuaRot, Ashkboos et al. 2024).
  void (*mix)(float* x, int64_t size);
};

}  // namespace martlet::cpu
