#include "plan/bandwidth.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include <sys/mman.h>

namespace martlet {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 20;
constexpr int kPasses = 10;

// Sixteen bytes: a register of every machine's base instruction set.
using Words = uint64_t __attribute__((vector_size(16)));

// Eight sums, so that no load waits for an addition.
uint64_t read_all(const Words* from, size_t count) {
  Words sums[8] = {};
  for (size_t i = 0; i + 8 <= count; i += 8) {
    __builtin_prefetch(from + i + 256);
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
  using Clock = std::chrono::steady_clock;
  const size_t part = kBufferBytes / static_cast<size_t>(threads) / 128 * 128;
  std::vector<Clock::time_point> marks;
  marks.reserve(kPasses + 1);
  std::barrier barrier(threads, [&]() noexcept { marks.push_back(Clock::now()); });
  auto work = [&](int32_t index) {
    std::byte* own = buffer.data() + part * static_cast<size_t>(index);
    std::memset(own, 1, part);  // touched by its reader first, so that it lies near it
    barrier.arrive_and_wait();
    for (int pass = 0; pass < kPasses; ++pass) {
      volatile uint64_t kept = read_all(reinterpret_cast<const Words*>(own), part / sizeof(Words));
      static_cast<void>(kept);
      barrier.arrive_and_wait();
    }
  };
  std::vector<std::thread> others;
  for (int32_t i = 1; i < threads; ++i) others.emplace_back(work, i);
  work(0);
  for (std::thread& other : others) other.join();
  double best = 0;
  for (size_t i = 1; i < marks.size(); ++i) {
    const double seconds = std::chrono::duration<double>(marks[i] - marks[i - 1]).count();
    best = std::max(best, static_cast<double>(part) * threads / seconds / 1e9);
  }
  return best;
}

}  // namespace martlet
