// How near one stream's decoding comes to the bus when nothing but its products runs: all threads read the same memory
// in turn plainly and as matrices, cut into operators of a model's size with the threads' meeting after each. Prints
// the median and the best of GB/s; the turns alternate, so that neighbours of the machine disturb all alike.
//   stream_bench [THREADS] [TURNS]

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "backend/cpu/cores.h"
#include "backend/cpu/isa/level.h"
#include "backend/cpu/thread_pool.h"
#include "tensor/format.h"

namespace martlet::cpu {
namespace {

constexpr int64_t kBytes = 128 << 20;
constexpr int64_t kPieces = 256;  // of the plain read

struct Operators {
  const char* name;
  Format format;
  int64_t columns, rows;  // rows: of one operator; 0: all memory is one
};
constexpr Operators kWork[] = {
    {"Q4_K, 1,024 columns, one operator", Format::Q4_K, 1024, 0},
    {"Q4_K, 1,024 columns, 2,048 rows each", Format::Q4_K, 1024, 2048},
    {"Q6_K, 1,024 columns, one operator", Format::Q6_K, 1024, 0},
    {"Q6_K, 3,072 columns, 1,024 rows each", Format::Q6_K, 3072, 1024},
    {"Q4_1, 576 columns, one operator", Format::Q4_1, 576, 0},
    {"Q4_1, 576 columns, 1,536 rows each", Format::Q4_1, 576, 1536},
    {"Q8_0, 1,024 columns, one operator", Format::Q8_0, 1024, 0},
};

using Words = uint64_t __attribute__((vector_size(16)));

void read_plainly(const std::byte* from, int64_t bytes) {
  const auto* words = reinterpret_cast<const Words*>(from);
  Words sums[8] = {};
  for (int64_t i = 0; i + 8 <= bytes / 16; i += 8) {
    __builtin_prefetch(words + i + 64);
    __builtin_prefetch(words + i + 68);
    for (int j = 0; j < 8; ++j) sums[j] += words[i + j];
  }
  Words sum = {};
  for (const Words& part : sums) sum += part;
  volatile uint64_t kept = sum[0] + sum[1];
  static_cast<void>(kept);
}

class Bench {
 public:
  Bench(const Level& level, int threads) : level_(level), pool_(threads), scratch_(static_cast<size_t>(threads)) {
    memory_ = static_cast<std::byte*>(std::aligned_alloc(2 << 20, kBytes));
    if (!memory_) std::abort();
#ifdef MADV_HUGEPAGE
    madvise(memory_, kBytes, MADV_HUGEPAGE);
#endif
    std::minstd_rand random(1);
    for (int64_t i = 0; i < kBytes; i += 2) {  // any two bytes are a small ordinary half
      const auto half = static_cast<uint16_t>((random() & 0x83ff) | 0x2000);
      std::memcpy(memory_ + i, &half, 2);
    }
    for (std::byte*& scratch : scratch_) {
      scratch = static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>(level.linear->scratch_bytes(4096))));
      if (!scratch) std::abort();
    }
  }
  ~Bench() {
    std::free(memory_);
    for (std::byte* scratch : scratch_) std::free(scratch);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  int64_t read() {
    pool_.run(kPieces, [&](int, int64_t begin, int64_t end) {
      read_plainly(memory_ + begin * (kBytes / kPieces), (end - begin) * (kBytes / kPieces));
    });
    return kBytes;
  }

  int64_t multiply(const Operators& work) {
    const int64_t row_bytes = bytes_of(work.format, work.columns), all = kBytes / row_bytes / kLinearTile * kLinearTile;
    const int64_t rows = work.rows > 0 ? work.rows : all;
    const ActivationKind kind = activation_kind(work.format);
    std::vector<std::byte> activations(static_cast<size_t>(activation_bytes(kind, work.columns)));
    level_.linear->quantize(kind, std::vector<float>(static_cast<size_t>(work.columns), 0.5f).data(), work.columns,
                            activations.data());
    y_.resize(static_cast<size_t>(rows));
    int64_t first = 0;
    for (; first + rows <= all; first += rows) {
      LinearJob job = {};
      job.format = work.format;
      job.weights = memory_ + first * row_bytes;
      job.weight_row_bytes = row_bytes;
      job.weights_end = job.weights + rows * row_bytes;
      job.columns = work.columns;
      job.activations = activations.data();
      job.activation_row_bytes = static_cast<int64_t>(activations.size());
      job.rows = 1;
      job.y = y_.data();
      job.y_stride = rows;
      pool_.run(rows / kLinearTile, [&](int worker, int64_t begin, int64_t end) {
        level_.linear->run(job, begin * kLinearTile, end * kLinearTile, scratch_[static_cast<size_t>(worker)]);
      });
    }
    return first * row_bytes;
  }

 private:
  const Level& level_;
  ThreadPool pool_;
  std::byte* memory_;
  std::vector<std::byte*> scratch_;
  std::vector<float> y_;
};

double rate(auto&& work) {
  const auto begin = std::chrono::steady_clock::now();
  const auto bytes = static_cast<double>(work());
  return bytes / 1e9 / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void print(const char* name, std::vector<double>& rates) {
  std::sort(rates.begin(), rates.end());
  std::printf("%-40s %8.1f %8.1f\n", name, rates[rates.size() / 2], rates.back());
}

int run(int threads, int turns) {
  const Result<const Level*> level = choose_level();
  if (!level) return 1;
  Bench bench(**level, threads);
  std::vector<double> reads, products[std::size(kWork)];
  for (int turn = 0; turn < turns; ++turn) {
    reads.push_back(rate([&] { return bench.read(); }));
    for (size_t i = 0; i < std::size(kWork); ++i) products[i].push_back(rate([&] { return bench.multiply(kWork[i]); }));
  }
  std::printf("%-40s %8s %8s\n", "GB/s", "median", "best");
  print("plain read", reads);
  for (size_t i = 0; i < std::size(kWork); ++i) print(kWork[i].name, products[i]);
  return 0;
}

}  // namespace
}  // namespace martlet::cpu

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : martlet::cpu::usable_cores();
  const int turns = argc > 2 ? std::atoi(argv[2]) : 15;
  if (threads < 1 || turns < 1) return 1;
  return martlet::cpu::run(threads, turns);
}
