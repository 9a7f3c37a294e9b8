#include "cli/backends.h"

#include "backend/cpu/cores.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/isa/level.h"
#include "backend/cpu/peak.h"
#include "plan/bandwidth.h"
#ifdef MARTLET_CUDA
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/peak.h"
#endif

namespace martlet::cli {
namespace {

struct Row {
  const char* name;
  // Null: not built.
  Result<std::unique_ptr<Backend>> (*make)(const BackendOptions& options);
  Result<MachineLimits> (*measure)(const BackendOptions& options);
  Result<double> (*measure_reading)(const BackendOptions& options);
};

Result<std::unique_ptr<Backend>> make_cpu(const BackendOptions& options) {
  return make_cpu_backend({.threads = options.threads, .max_rows = options.max_rows});
}

int32_t threads_of(const BackendOptions& options) {
  return options.threads > 0 ? options.threads : cpu::usable_cores();
}

Result<double> read_cpu(const BackendOptions& options) {
  return measure_read_bandwidth(threads_of(options));
}

Result<MachineLimits> measure_cpu(const BackendOptions& options) {
  MARTLET_ASSIGN(const cpu::Level* level, cpu::choose_level());
  const int32_t threads = threads_of(options);
  return MachineLimits{.isa = std::string(level->name),
                       .threads = threads,
                       .read_gb_s = measure_read_bandwidth(threads),
                       .int8_gops = cpu::measure_peak(*level, threads)};
}

#ifdef MARTLET_CUDA
Result<std::unique_ptr<Backend>> make_cuda(const BackendOptions& options) {
  return make_cuda_backend({.max_rows = options.max_rows, .invariant = options.invariant});
}

Result<MachineLimits> measure_cuda(const BackendOptions&) {
  MARTLET_ASSIGN(const CudaPeak peak, measure_cuda_peak());
  return MachineLimits{.read_gb_s = peak.read_gb_s, .half_gops = peak.half_gops};
}

Result<double> read_cuda(const BackendOptions&) {
  MARTLET_ASSIGN(const CudaPeak peak, measure_cuda_peak());
  return peak.read_gb_s;
}
constexpr Row kCuda = {"cuda", make_cuda, measure_cuda, read_cuda};
#else
constexpr Row kCuda = {"cuda", nullptr, nullptr, nullptr};
#endif

constexpr Row kBackends[] = {{"cpu", make_cpu, measure_cpu, read_cpu}, kCuda};

Result<const Row*> find(const std::string& name) {
  for (const Row& row : kBackends) {
    if (row.name != name) continue;
    if (row.make) return &row;
    return Error{ErrorKind::usage, "backend_not_built",
                 "this program was built without that backend; build it with the preset release-" + name, "--backend"};
  }
  return Error{ErrorKind::usage, "unknown_backend", "there is no such backend; take cpu or cuda", "--backend"};
}

}  // namespace

Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options) {
  MARTLET_ASSIGN(const Row* row, find(options.name));
  return row->make(options);
}

Result<MachineLimits> measure_limits(const BackendOptions& options) {
  MARTLET_ASSIGN(const Row* row, find(options.name));
  return row->measure(options);
}

Result<double> measure_reading(const BackendOptions& options) {
  MARTLET_ASSIGN(const Row* row, find(options.name));
  return row->measure_reading(options);
}

}  // namespace martlet::cli
