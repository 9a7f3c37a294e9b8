// Speed of the matrix kernels on one thread: every format at every level that the processor has.
//   decode/LEVEL/FORMAT/ROWS    one to 16 rows against a matrix far larger than the caches; `of_read`: the bytes of the
//                               weights a second as a fraction of what a plain read of them reaches
//   prefill/LEVEL/FORMAT        512 rows; `of_peak`: as a fraction of the level's 8-bit products alone
// Options are Google Benchmark's, for example --benchmark_filter=avx2/Q4_1 --benchmark_repetitions=5.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/isa/level.h"
#include "tensor/format.h"

namespace martlet::cpu {
namespace {

constexpr int64_t kMatrixBytes = 96 << 20;
constexpr int64_t kColumns = 1536, kPrefillOutputs = 1536, kPrefillRows = 512;

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<std::byte, Free>;

Buffer buffer(int64_t bytes) {
  constexpr int64_t page = 2 << 20;
  return Buffer(static_cast<std::byte*>(std::aligned_alloc(page, static_cast<size_t>((bytes + page) / page * page))));
}

// The same bytes serve every format: speed does not depend on values, as long as halves are ordinary numbers.
const std::byte* weights() {
  static const Buffer bytes = [] {
    Buffer b = buffer(kMatrixBytes);
    std::minstd_rand random(1);
    for (int64_t i = 0; i < kMatrixBytes; i += 2) {
      auto half = static_cast<uint16_t>((random() & 0x83ff) | 0x2000);
      std::memcpy(b.get() + i, &half, 2);
    }
    return b;
  }();
  return bytes.get();
}

double seconds_of(auto&& work) {
  auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Bytes a second, best of ten passes.
double read_bandwidth() {
  static const double best = [] {
    double most = 0;
    for (int pass = 0; pass < 10; ++pass) {
      uint64_t sum[8] = {};
      double seconds = seconds_of([&] {
        const auto* p = reinterpret_cast<const uint64_t*>(weights());
        for (int64_t i = 0; i < kMatrixBytes / 8; i += 8) {
          for (int j = 0; j < 8; ++j) sum[j] += p[i + j];
        }
        benchmark::DoNotOptimize(sum);
      });
      most = std::max(most, static_cast<double>(kMatrixBytes) / seconds);
    }
    return most;
  }();
  return best;
}

// Operations a second, best of ten passes.
double peak(const Level& level) {
  double most = 0;
  for (int pass = 0; pass < 10; ++pass) {
    int64_t operations = 0;
    double seconds = seconds_of([&] { operations = level.linear->run_peak(1 << 20); });
    most = std::max(most, static_cast<double>(operations) / seconds);
  }
  return most;
}

struct Work {
  Buffer activations, scratch;
  std::vector<float> y;
  LinearJob job{};

  Work(const Level& level, Format format, int64_t rows, int64_t outputs) : y(static_cast<size_t>(rows * outputs)) {
    ActivationKind kind = activation_kind(format);
    int64_t row_bytes = activation_bytes(kind, kColumns);
    activations = buffer(rows * row_bytes);
    scratch = buffer(level.linear->scratch_bytes(kColumns));
    std::vector<float> x(kColumns);
    std::minstd_rand random(2);
    for (int64_t r = 0; r < rows; ++r) {
      for (float& v : x) v = static_cast<float>(random() % 2001) / 1000 - 1;
      level.linear->quantize(kind, x.data(), kColumns, activations.get() + r * row_bytes);
    }
    job.format = format;
    job.weights = weights();
    job.weight_row_bytes = bytes_of(format, kColumns);
    job.columns = kColumns;
    job.activations = activations.get();
    job.activation_row_bytes = row_bytes;
    job.rows = rows;
    job.y = y.data();
    job.y_stride = outputs;
    job.weights_end = weights() + kMatrixBytes;
  }
};

void decode(benchmark::State& state, const Level& level, Format format, int64_t rows) {
  int64_t outputs = kMatrixBytes / bytes_of(format, kColumns) / kLinearTile * kLinearTile;
  Work work(level, format, rows, outputs);
  constexpr int64_t chunk = 8 * kLinearTile;
  double seconds = seconds_of([&] {
    for (auto _ : state) {
      for (int64_t n = 0; n < outputs; n += chunk) {
        level.linear->run(work.job, n, std::min(n + chunk, outputs), work.scratch.get());
      }
    }
  });
  double bytes = static_cast<double>(outputs * work.job.weight_row_bytes) * static_cast<double>(state.iterations());
  state.counters["GB/s"] = bytes / seconds * 1e-9;
  state.counters["of_read"] = bytes / seconds / read_bandwidth();
}

void prefill(benchmark::State& state, const Level& level, Format format) {
  Work work(level, format, kPrefillRows, kPrefillOutputs);
  double most = peak(level);
  double seconds = seconds_of([&] {
    for (auto _ : state) level.linear->run(work.job, 0, kPrefillOutputs, work.scratch.get());
  });
  double operations = 2.0 * kPrefillRows * kPrefillOutputs * kColumns * static_cast<double>(state.iterations());
  state.counters["GOP/s"] = operations / seconds * 1e-9;
  state.counters["of_peak"] = operations / seconds / most;
}

void add(const Level& level, Format format) {
  std::string name = std::string(level.name) + "/" + std::string(info(format).name);
  for (int64_t rows : {1, 2, 3, 4, 5, 6, 8, 9, 12, 16}) {
    benchmark::RegisterBenchmark(("decode/" + name + "/" + std::to_string(rows)).c_str(), [&level, format, rows](
                                                                                              benchmark::State& state) {
      decode(state, level, format, rows);
    })->UseRealTime();
  }
  benchmark::RegisterBenchmark(("prefill/" + name).c_str(), [&level, format](benchmark::State& state) {
    prefill(state, level, format);
  })->UseRealTime();
}

void add_all() {
  for (const Level* level : levels()) {
    if (!level->available()) continue;
#define MARTLET_FORMAT(name, id, elements, bytes, computes) \
  if (computes) add(*level, Format::name);
#include "tensor/formats.def"
#undef MARTLET_FORMAT
  }
}

}  // namespace
}  // namespace martlet::cpu

int main(int argc, char** argv) {
  martlet::cpu::add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
