#include "backend/cpu/paged_cache.h"

#include <limits>
#include <string>

#include "base/checked.h"

namespace martlet::cpu {
namespace {

int64_t keys_bytes(const CacheGroup& group) {
  const CacheFormat& format = format_of(group.type);
  return format.key_bytes(group.key_size) + format.scale_bytes(group.key_size);
}

int64_t head_bytes(const CacheGroup& group) {
  const CacheFormat& format = format_of(group.type);
  return keys_bytes(group) + format.value_bytes(group.value_size) + format.scale_bytes(group.value_size);
}

}  // namespace

std::optional<int64_t> cache_page_bytes(const CacheGroup& group) {
  const Checked heads = Checked(static_cast<uint64_t>(group.layers)) * Checked(static_cast<uint64_t>(group.kv_heads));
  const Checked bytes = heads * Checked(static_cast<uint64_t>(head_bytes(group)));
  if (!bytes.within(uint64_t{1} << 62)) return std::nullopt;
  return static_cast<int64_t>(*bytes.get());
}

Result<PagedCache> PagedCache::create(const CacheGroup& group) {
  if (group.layers < 1 || group.kv_heads < 1 || group.pages < 1 || group.key_size < 2 || group.key_size % 2 != 0 ||
      group.value_size < 16 || group.value_size % 16 != 0) {
    return Error{ErrorKind::model, "unsupported_head_size",
                 "attention takes heads whose keys have an even and whose values a multiple of 16 elements", ""};
  }
  PagedCache cache;
  cache.group_ = group;
  cache.keys_bytes_ = keys_bytes(group);
  cache.head_bytes_ = head_bytes(group);
  const Checked page = static_cast<uint64_t>(cache_page_bytes(group).value_or(std::numeric_limits<int64_t>::max()));
  const Checked bytes = page * Checked(static_cast<uint64_t>(group.pages));
  if (bytes.within(uint64_t{1} << 62)) cache.memory_ = Mapping(static_cast<int64_t>(*bytes.get()));
  if (!cache.memory_.data()) {
    return Error{ErrorKind::memory, "out_of_memory",
                 "the system has no memory for a cache of " + std::to_string(bytes.get().value_or(UINT64_MAX) >> 20) +
                     " MiB; use a smaller context or fewer sequences",
                 ""};
  }
  return cache;
}

}  // namespace martlet::cpu
