#include "plan/bandwidth.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "base/best_rate.h"

namespace martlet {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 20;

// Sixteen bytes: a register of every machine's base instruction set.
using Words = uint64_t __attribute__((vector_size(16)));

constexpr size_t kAhead = 64;  // a kilobyte

// Eight sums, so that no load waits for an addition. Both lines of a step are fetched ahead: fetching every second one
// keeps the processor's own prefetcher from its work, and is slower than fetching none.
uint64_t read_all(const Words* from, size_t count) {
  Words sums[8] = {};
  for (size_t i = 0; i + 8 <= count; i += 8) {
    __builtin_prefetch(from + i + kAhead);
    __builtin_prefetch(from + i + kAhead + 4);
    for (size_t j = 0; j < 8; ++j) sums[j] += from[i + j];
  }
  Words sum = {};
  for (const Words& part : sums) sum += part;
  return sum[0] + sum[1];
}

class Buffer {
 public:
  Buffer() : data_(mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
#ifdef MADV_HUGEPAGE
    if (*this) madvise(data_, kBufferBytes, MADV_HUGEPAGE);
#endif
  }
  ~Buffer() {
    if (*this) munmap(data_, kBufferBytes);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  explicit operator bool() const {
    return data_ != MAP_FAILED;
  }
  std::byte* data() {
    return static_cast<std::byte*>(data_);
  }

 private:
  void* data_;
};

}  // namespace

double measure_read_bandwidth(int32_t threads) {
  Buffer buffer;
  if (!buffer || threads < 1) return 0;
  const size_t part = kBufferBytes / static_cast<size_t>(threads) / 128 * 128;
  std::vector<char> touched(static_cast<size_t>(threads));
  return best_rate(threads, [&](int32_t thread) {
    std::byte* own = buffer.data() + part * static_cast<size_t>(thread);
    // Touched by its reader first, so that it lies near it.
    if (!std::exchange(touched[static_cast<size_t>(thread)], 1)) std::memset(own, 1, part);
    volatile uint64_t kept = read_all(reinterpret_cast<const Words*>(own), part / sizeof(Words));
    static_cast<void>(kept);
    return static_cast<double>(part) / 1e9;
  });
}

}  // namespace martlet
