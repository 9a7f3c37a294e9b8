#pragma once

// Sizes of cached keys and values. Of one head a page keeps its keys [token][key_size], its values transposed,
// [value_size][token], and, of types whose values share scales, those as halves: [token][block] of keys, [block][token]
// of values.

#include <cstdint>

#include "martlet/cache_type.h"

namespace martlet::cuda {

inline constexpr int32_t kPageTokens = 32;

struct CacheFormat {
  int32_t element_bytes;  // 0: the type is not kept
  int32_t block;          // values of a token that share a scale; 0: there are none

  constexpr int64_t scales(int32_t size) const { return block == 0 ? 0 : (size + block - 1) / block; }  // of a token
  // Of one head of a page: a multiple of 64, as head sizes are multiples of 16.
  constexpr int64_t head_bytes(int32_t key_size, int32_t value_size) const {
    return kPageTokens *
           (int64_t{element_bytes} * (key_size + value_size) + 2 * (scales(key_size) + scales(value_size)));
  }
};

constexpr CacheFormat format_of(CacheType type) {
  switch (type) {
    case CacheType::f16:
    case CacheType::bf16:
      return {2, 0};
    case CacheType::fp8:
      return {1, 0};
    case CacheType::q8:
      return {1, 32};
    default:
      return {};
  }
}

}  // namespace martlet::cuda
