#include "backend/cpu/memory.h"

#include <sys/mman.h>
#include <unistd.h>

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

void give_back(std::span<std::byte> bytes) {
#ifdef __APPLE__
  constexpr int kAdvice = MADV_FREE;
#else
  constexpr int kAdvice = MADV_DONTNEED;
#endif
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, kAdvice);
}

}  // namespace martlet::cpu
