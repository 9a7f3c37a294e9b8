#pragma once

// Cached keys and values of one cache group, as halves. A page holds, layer after layer and head after head, the keys of
// its tokens [key_size][kPageTokens], transposed so that neighbouring lanes are tokens, and then their values
// [kPageTokens][value_size].

#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "backend/cpu/memory.h"
#include "base/error.h"

namespace martlet::cpu {

inline constexpr int32_t kPageTokens = 32;

class PagedCache {
 public:
  // Errors: `memory` when the system has no room, `model` for sizes that attention does not take.
  static Result<PagedCache> create(const CacheGroup& group);

  const CacheGroup& group() const { return group_; }
  int64_t page_bytes() const { return group_.page_values(kPageTokens) * static_cast<int64_t>(sizeof(uint16_t)); }
  std::span<std::byte> page(Page page) const {
    return {memory_.data() + page * page_bytes(), static_cast<size_t>(page_bytes())};
  }
  uint16_t* keys(Page p, int32_t layer, int32_t head) const {
    const int64_t block = int64_t{layer} * group_.kv_heads + head;
    return reinterpret_cast<uint16_t*>(page(p).data()) + block * kPageTokens * (group_.key_size + group_.value_size);
  }
  uint16_t* values(Page p, int32_t layer, int32_t head) const {
    return keys(p, layer, head) + int64_t{kPageTokens} * group_.key_size;
  }
  // The first `tokens` slots of every layer.
  void copy(Page from, Page to, int32_t tokens) const;

 private:
  CacheGroup group_;
  Mapping memory_;
};

}  // namespace martlet::cpu
