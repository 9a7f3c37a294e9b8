#pragma once

// Cached keys and values of one cache group. A page holds, layer after layer and head after head, the keys of its
// tokens [key_size][kPageTokens], transposed so that neighbouring lanes are tokens, and then their values
// [kPageTokens][value_size].

#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "backend/cpu/memory.h"
#include "base/error.h"

namespace martlet::cpu {

inline constexpr int32_t kPageTokens = 32;

enum class CacheValues : uint8_t { f16, f32 };
constexpr int64_t bytes_of(CacheValues values) {
  return values == CacheValues::f16 ? 2 : 4;
}

class PagedCache {
 public:
  // Errors: `memory` when the system has no room, `model` for sizes that attention does not take.
  static Result<PagedCache> create(const CacheGroup& group, CacheValues stored_as);

  const CacheGroup& group() const { return group_; }
  CacheValues stored_as() const { return stored_as_; }
  int64_t page_bytes() const { return group_.page_values(kPageTokens) * bytes_of(stored_as_); }
  std::span<std::byte> page(Page page) const {
    return {memory_.data() + page * page_bytes(), static_cast<size_t>(page_bytes())};
  }
  std::byte* keys(Page p, int32_t layer, int32_t head) const {
    const int64_t block = int64_t{layer} * group_.kv_heads + head;
    return page(p).data() + block * kPageTokens * (group_.key_size + group_.value_size) * bytes_of(stored_as_);
  }
  std::byte* values(Page p, int32_t layer, int32_t head) const {
    return keys(p, layer, head) + kPageTokens * group_.key_size * bytes_of(stored_as_);
  }
  // The first `tokens` slots of every layer.
  void copy(Page from, Page to, int32_t tokens) const;

 private:
  CacheGroup group_;
  CacheValues stored_as_ = CacheValues::f16;
  Mapping memory_;
};

}  // namespace martlet::cpu
