#include "file/allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<size_t> total{0};
}

size_t allocated_bytes() {
  return total.load();
}

#if defined(__has_feature)
#define MARTLET_HAS_FEATURE(name) __has_feature(name)
#else
#define MARTLET_HAS_FEATURE(name) 0
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !MARTLET_HAS_FEATURE(address_sanitizer) && \
    !MARTLET_HAS_FEATURE(thread_sanitizer)
void* operator new(size_t size) {
  total += size;
  if (void* memory = std::malloc(size ? size : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
#endif
