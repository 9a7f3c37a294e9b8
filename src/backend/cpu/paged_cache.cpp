#include "backend/cpu/paged_cache.h"

#include <algorithm>
#include <string>

#include "base/checked.h"

namespace martlet::cpu {

Result<PagedCache> PagedCache::create(const CacheGroup& group) {
  if (group.layers < 1 || group.kv_heads < 1 || group.pages < 1 || group.key_size < 2 || group.key_size % 2 != 0 ||
      group.value_size < 16 || group.value_size % 16 != 0) {
    return Error{ErrorKind::model, "unsupported_head_size",
                 "attention takes heads whose keys have an even and whose values a multiple of 16 elements", ""};
  }
  PagedCache cache;
  cache.group_ = group;
  const Checked sizes = Checked(static_cast<uint64_t>(group.key_size)) + Checked(static_cast<uint64_t>(group.value_size));
  const Checked heads = Checked(static_cast<uint64_t>(group.layers)) * Checked(static_cast<uint64_t>(group.kv_heads));
  const Checked bytes = sizes * heads * Checked(uint64_t{kPageTokens} * sizeof(uint16_t)) *
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
  for (int32_t layer = 0; layer < group_.layers; ++layer) {
    for (int32_t head = 0; head < group_.kv_heads; ++head) {
      const uint16_t* source = keys(from, layer, head);
      uint16_t* target = keys(to, layer, head);
      for (int32_t i = 0; i < group_.key_size; ++i) std::copy_n(source + i * kPageTokens, tokens, target + i * kPageTokens);
      std::copy_n(values(from, layer, head), int64_t{tokens} * group_.value_size, values(to, layer, head));
    }
  }
}

}  // namespace martlet::cpu
