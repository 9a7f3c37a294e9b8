#include "file/allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

#include "sanitized.h"

namespace {
std::atomic<size_t> total{0};
}

size_t allocated_bytes() {
  return total.load();
}

#if !MARTLET_ADDRESS_SANITIZER && !MARTLET_THREAD_SANITIZER
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
