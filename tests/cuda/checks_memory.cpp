#include <algorithm>
#include <cstdlib>

#include "backend/cuda/cuda_backend.h"
#include "checks.h"
#include "cli/bench_runner.h"
#include "file/model_file.h"

namespace martlet::gpu {
namespace {

constexpr int32_t kContext = 2048, kChunk = 512;
constexpr int64_t kMiB = 1 << 20;
// By which a plan may be too large: buffers of the upload where steps need less, and rounding.
constexpr int64_t kSlack = 72 * kMiB;
// What the driver keeps of its own: kernels, graphs and the matrix library.
constexpr int64_t kMostOfDriver = 64 * kMiB;

template <class T>
T value_of(Result<T> result) {
  if (!result) std::printf("%s\n", result.error().line().c_str()), std::exit(1);
  return std::move(*result);
}

std::string mib(int64_t bytes) {
  return std::to_string(bytes / kMiB) + " MiB";
}

struct Case {
  int32_t sequences;
  bool invariant;
};

// The parts of a plan that lie on the device.
int64_t planned(const ModelFile& file, const Backend& backend, const StepLimits& limits, int64_t copies) {
  const Hyperparameters h = value_of(read_hyperparameters(file));
  const int64_t pages = int64_t{limits.sequences} * kContext / backend.page_tokens();
  const int64_t page = backend.cache_page_bytes(cache_groups(h, CacheType::f16, 0)[0]).value();
  return weight_bytes(file, backend) + backend.workspace_bytes(limits, step_widths(h)) + pages * page + copies;
}

void check_case(const std::string& path, const Case& c, Tally& tally) {
  const auto file = value_of(ModelFile::open(path));
  const int32_t rows = kChunk + c.sequences;
  const auto backend = value_of(make_cuda_backend({.max_rows = rows, .invariant = c.invariant}));
  const DeviceMemory before = *backend->device_memory();
  const StepLimits limits = {.rows = rows, .sequences = c.sequences, .context = kContext};
  const int64_t copies = copy_bytes(*file, *backend), plan = planned(*file, *backend, limits, copies);
  backend->limit(limits);
  backend->spare(copies);
  const auto runner =
      value_of(cli::BenchRunner::open(file, *backend, c.sequences, kContext, CacheType::f16, backend->max_rows()));
  const DeviceMemory loaded = *backend->device_memory();
  value_of(runner->prefill(kContext, 1));
  value_of(runner->decode(c.sequences, kContext - 1, 1, 1));
  const DeviceMemory after = *backend->device_memory();

  const std::string name =
      "memory of " + std::to_string(c.sequences) + " sequences" + (c.invariant ? ", invariant" : "");
  tally.expect(after.held == loaded.held, name + ": steps take no more", mib(loaded.held) + ", " + mib(after.held));
  tally.expect(after.held <= plan && plan - after.held <= kSlack + plan / 20, name + ": as planned",
               mib(plan) + " planned, " + mib(after.held) + " taken");
  const int64_t driver = before.free - after.free - (after.held - before.held);
  tally.expect(driver > -kSlack && driver <= kMostOfDriver, name + ": the driver's own", mib(driver));
}

}  // namespace

void check_memory(const std::string& path, Tally& tally) {
  for (const Case& c : {Case{1, false}, {32, false}, {1, true}, {32, true}}) check_case(path, c, tally);
}

}  // namespace martlet::gpu
