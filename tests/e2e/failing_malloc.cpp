// Preloaded into a program under test: its nth allocation from now fails. A file that both sides have mapped, named by
// FAILING_MALLOC, holds four 64-bit numbers: allocations until one fails (0: none will), allocations made so far, bytes
// that each further one leaks (0: none), and allocations that have failed.

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

struct Control {
  std::atomic<int64_t> until_failure, made, leaked, failed;
};
std::atomic<Control*> control{nullptr};

__attribute__((constructor)) void attach() {
  const char* path = getenv("FAILING_MALLOC");
  const int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0) return;
  void* memory = mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory != MAP_FAILED) control = static_cast<Control*>(memory);
}

bool fails() {
  Control* c = control.load(std::memory_order_relaxed);
  if (!c) return false;
  c->made.fetch_add(1, std::memory_order_relaxed);
  if (const int64_t bytes = c->leaked.load(std::memory_order_relaxed)) {
    if (void* leak = __libc_malloc(static_cast<size_t>(bytes))) memset(leak, 1, static_cast<size_t>(bytes));
  }
  if (c->until_failure.load(std::memory_order_relaxed) <= 0) return false;
  if (c->until_failure.fetch_sub(1) != 1) return false;
  c->failed.fetch_add(1, std::memory_order_relaxed);
  errno = ENOMEM;
  return true;
}

}  // namespace

extern "C" {
void* malloc(size_t size) {
  return fails() ? nullptr : __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  return fails() ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  return fails() ? nullptr : __libc_realloc(old, size);
}
void* memalign(size_t alignment, size_t size) {
  return fails() ? nullptr : __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}
int posix_memalign(void** out, size_t alignment, size_t size) {
  void* memory = memalign(alignment, size);
  if (memory) *out = memory;
  return memory ? 0 : ENOMEM;
}
}
