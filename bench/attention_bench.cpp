// Speed of attention at every level that the processor has, for each cache type and on one and two threads: the whole
// operator, RoPE and the writing of keys and values included.
//   decode/LEVEL/TYPE/HEADS:KEY_HEADS:SIZE/DEPTH/THREADS    one row behind DEPTH cached tokens, layer after layer, so
//   that
//     the cache comes from memory; `cache_bytes`: of keys and values, a second
//   prefill/...   512 rows; `flops`: of scores and sums, a second

#include <benchmark/benchmark.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/isa/level.h"
#include "backend/cpu/paged_cache.h"

namespace martlet::cpu {
namespace {

struct Shape {
  int32_t heads, kv_heads, size;
  int32_t columns() const { return (heads + 2 * kv_heads) * size; }
};

// Attention layers of one sequence. Its pages all hold what the first one does.
class Layers {
 public:
  Layers(const Level* level, const Shape& shape, CacheType type, int threads, int32_t tokens, int32_t layers)
      : tokens_(tokens), layers_(layers), pages_(static_cast<size_t>(tokens / kPageTokens + 1)) {
    backend_ = std::move(*make_cpu_backend({.threads = threads, .level = level}));
    std::iota(pages_.begin(), pages_.end(), 0);
    const CacheGroup group = {CacheGroup::Kind::paged,
                              layers,
                              shape.kv_heads,
                              shape.size,
                              shape.size,
                              static_cast<int32_t>(pages_.size()),
                              type};
    model_ = *backend_->open({&group, 1});
    table_values_.resize(static_cast<size_t>(shape.columns()));
    for (size_t i = 0; i < table_values_.size(); ++i) table_values_[i] = std::sin(static_cast<float>(i));
    frequencies_.assign(static_cast<size_t>(shape.size / 2), 0.1f);
    table_ = upload(table_values_);
    attention_ = {
        0, 0, shape.heads, shape.kv_heads, shape.size, shape.size, 1 / std::sqrt(static_cast<float>(shape.size))};
    attention_.rope_frequencies = upload(frequencies_);
    int32_t written = 0;
    run(0, kPageTokens, [&] { return written++ < layers; });
    std::vector<std::byte> page(static_cast<size_t>(backend_->page_bytes(model_, 0)));
    backend_->read_page(model_, 0, 0, page);
    for (const Page p : pages_) backend_->write_page(model_, 0, p, page);
  }

  double bytes_of_token() const {
    return static_cast<double>(backend_->page_bytes(model_, 0)) / (kPageTokens * layers_);
  }

  // Attention of `rows` rows from position `first` on, as often as `again` says, in one layer after the other.
  template <class Again>
  void run(int32_t first, int32_t rows, Again&& again) {
    const std::vector<Token> tokens(static_cast<size_t>(rows), 0);
    std::vector<int32_t> positions(static_cast<size_t>(rows));
    std::iota(positions.begin(), positions.end(), first);
    const int32_t starts[] = {0, rows}, page_starts[] = {0, static_cast<int32_t>(pages_.size())};
    const PageTable table = {page_starts, pages_};
    const Batch batch = {.tokens = tokens,
                         .positions = positions,
                         .starts = starts,
                         .context_lengths = {&tokens_, 1},
                         .groups = {&table, 1}};
    const Ticket ticket = backend_->submit(model_, batch, {}, [&] {
      const Tensor x = backend_->embed(table_);
      while (again()) {
        backend_->attend(x, attention_);
        attention_.layer = (attention_.layer + 1) % layers_;
      }
      return Outputs{};
    });
    if (!backend_->wait(ticket, {}, {})) std::abort();
  }

 private:
  Weight upload(const std::vector<float>& values) {
    const TensorView view = {
        reinterpret_cast<const std::byte*>(values.data()), Format::F32, {static_cast<int64_t>(values.size()), 1, 1, 1}};
    return *backend_->upload(model_, {&view, 1});
  }

  int32_t tokens_, layers_;
  std::vector<Page> pages_;
  std::vector<float> table_values_, frequencies_;
  std::unique_ptr<Backend> backend_;
  ModelId model_{};
  Weight table_;
  Attention attention_;
};

// Bytes that no cache of a processor holds.
constexpr double kFarBytes = 256 << 20;

void run(benchmark::State& state, const Level* level, Shape shape, CacheType type, int threads, int32_t rows,
         int32_t depth) {
  const double layer_bytes = 4.0 * (depth + rows) * shape.kv_heads * shape.size;  // more than most types take
  const int32_t layers = rows == 1 ? 1 + static_cast<int32_t>(kFarBytes / layer_bytes) : 1;
  Layers all(level, shape, type, threads, depth + rows, layers);
  all.run(depth, rows, [&] { return state.KeepRunning(); });
  const auto times = static_cast<double>(state.iterations());
  if (rows == 1) {
    state.counters["cache_bytes"] =
        benchmark::Counter(times * all.bytes_of_token() * depth, benchmark::Counter::kIsRate);
  } else {
    const double pairs = rows * (depth + (rows + 1) / 2.0);
    state.counters["flops"] =
        benchmark::Counter(times * 4.0 * pairs * shape.heads * shape.size, benchmark::Counter::kIsRate);
  }
}

void register_all() {
  for (const Level* level : levels()) {
    if (!level->available()) continue;
    for (int type = 1; type < kKeptTypes; ++type) {
      for (const Shape& shape : {Shape{9, 3, 64}, Shape{16, 8, 128}, Shape{32, 8, 128}}) {
        for (const int threads : {1, 2}) {
          const auto add = [&](const char* work, int32_t rows, int32_t depth) {
            const std::string name = std::string(work) + "/" + std::string(level->name) + "/" +
                                     std::string(kCacheTypeNames[type]) + "/" + std::to_string(shape.heads) + ":" +
                                     std::to_string(shape.kv_heads) + ":" + std::to_string(shape.size) + "/" +
                                     std::to_string(depth) + "/" + std::to_string(threads);
            benchmark::RegisterBenchmark(name.c_str(), run, level, shape, static_cast<CacheType>(type), threads, rows,
                                         depth)
                ->UseRealTime();
          };
          for (const int32_t depth : {256, 4096, 16'384}) add("decode", 1, depth);
          for (const int32_t depth : {0, 4096}) add("prefill", 512, depth);
        }
      }
    }
  }
}

}  // namespace
}  // namespace martlet::cpu

int main(int argc, char** argv) {
  martlet::cpu::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
