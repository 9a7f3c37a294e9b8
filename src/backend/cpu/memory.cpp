#include "backend/cpu/memory.h"

#include <sys/mman.h>

namespace martlet::cpu {
namespace {

constexpr int64_t kHugePage = 2 << 20;

}  // namespace

Mapping::Mapping(int64_t bytes) {
  const int64_t unit = bytes >= kHugePage ? kHugePage : 64 << 10;
  const int64_t size = (bytes + unit - 1) / unit * unit;
  void* data = mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
  if (data == MAP_FAILED) return;
#ifdef MADV_HUGEPAGE
  if (bytes >= kHugePage) madvise(data, static_cast<size_t>(size), MADV_HUGEPAGE);  // a hint: refusal costs speed only
#endif
  data_ = static_cast<std::byte*>(data);
  size_ = size;
}

Mapping::~Mapping() {
  if (data_) munmap(data_, static_cast<size_t>(size_));
}

}  // namespace martlet::cpu
