#include "backend/cpu/paged_cache.h"

#include <algorithm>
#include <string>

#include "base/checked.h"

namespace martlet::cpu {

Result<PagedCache> PagedCache::create(const CacheGroup& group, CacheValues stored_as) {
  if (group.layers < 1 || group.kv_heads < 1 || group.pages < 1 || group.key_size < 2 || group.key_size % 2 != 0 ||
      group.value_size < 16 || group.value_size % 16 != 0) {
    return Error{ErrorKind::model, "unsupported_head_size",
                 "attention takes heads whose keys have an even and whose values a multiple of 16 elements", ""};
  }
  PagedCache cache;
  cache.group_ = group;
  cache.stored_as_ = stored_as;
  const Checked sizes =
      Checked(static_cast<uint64_t>(group.key_size)) + Checked(static_cast<uint64_t>(group.value_size));
  const Checked heads = Checked(static_cast<uint64_t>(group.layers)) * Checked(static_cast<uint64_t>(group.kv_heads));
  const Checked bytes = sizes * heads * Checked(static_cast<uint64_t>(kPageTokens * bytes_of(stored_as))) *
                        Checked(static_cast<uint64_t>(group.pages));
  if (bytes.within(uint64_t{1} << 62)) cache.memory_ = Mapping(static_cast<int64_t>(*bytes.get()));
  if (!cache.memory_.data()) {
    return Error{ErrorKind::memory, "out_of_memory",
                 "the system has no memory for a cache of " + std::to_string(bytes.get().value_or(UINT64_MAX) >> 20) +
                     " MiB; use a smaller context or fewer sequences",
                 ""};
  }
  return cache;
}

void PagedCache::copy(Page from, Page to, int32_t tokens) const {
  const int64_t value = bytes_of(stored_as_);
  for (int32_t layer = 0; layer < group_.layers; ++layer) {
    for (int32_t head = 0; head < group_.kv_heads; ++head) {
      const std::byte* source = keys(from, layer, head);
      std::byte* target = keys(to, layer, head);
      for (int64_t at = 0; at < group_.key_size * kPageTokens * value; at += kPageTokens * value)
        std::copy_n(source + at, tokens * value, target + at);
      std::copy_n(values(from, layer, head), tokens * group_.value_size * value, values(to, layer, head));
    }
  }
}

}  // namespace martlet::cpu
