#pragma once

// Cached keys and values of one cache group. A page holds, layer after layer and head after head, the keys of its
// tokens, their scales, the values and their scales: kernels/attention.h says how each of these lies.

#include <cstdint>
#include <optional>
#include <span>

#include "backend/backend.h"
#include "backend/cpu/kernels/attention.h"
#include "backend/cpu/memory.h"
#include "base/error.h"

namespace martlet::cpu {

// Bytes that one page of such a group takes; nothing when they are beyond counting.
std::optional<int64_t> cache_page_bytes(const CacheGroup& group);

class PagedCache {
 public:
  // Errors: `memory` when the system has no room, `model` for sizes that attention does not take.
  static Result<PagedCache> create(const CacheGroup& group);

  const CacheGroup& group() const { return group_; }
  const CacheFormat& format() const { return format_of(group_.type); }
  int64_t page_bytes() const { return group_.layers * group_.kv_heads * head_bytes_; }
  std::span<std::byte> page(Page page) const {
    return {memory_.data() + page * page_bytes(), static_cast<size_t>(page_bytes())};
  }
  std::byte* keys(Page p, int32_t layer, int32_t head) const {
    return memory_.data() + p * page_bytes() + (int64_t{layer} * group_.kv_heads + head) * head_bytes_;
  }
  std::byte* values(Page p, int32_t layer, int32_t head) const { return keys(p, layer, head) + keys_bytes_; }
  // Behind the elements that keys() or values() point to.
  uint16_t* key_scales(std::byte* keys) const {
    return reinterpret_cast<uint16_t*>(keys + format().key_bytes(group_.key_size));
  }
  uint16_t* value_scales(std::byte* values) const {
    return reinterpret_cast<uint16_t*>(values + format().value_bytes(group_.value_size));
  }

 private:
  CacheGroup group_;
  int64_t keys_bytes_ = 0,
          head_bytes_ = 0;  // of one head of a layer in a page: keys with scales; values with theirs too
  Mapping memory_;
};

}  // namespace martlet::cpu
