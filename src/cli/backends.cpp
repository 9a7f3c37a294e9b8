#include "cli/backends.h"

#include "backend/cpu/cpu_backend.h"
#ifdef MARTLET_CUDA
#include "backend/cuda/cuda_backend.h"
#endif

namespace martlet::cli {
namespace {

using Make = Result<std::unique_ptr<Backend>> (*)(const BackendOptions& options);

struct Row {
  const char* name;
  Make make;  // null: not built
};

Result<std::unique_ptr<Backend>> make_cpu(const BackendOptions& options) {
  return make_cpu_backend({.threads = options.threads, .max_rows = options.max_rows});
}

#ifdef MARTLET_CUDA
Result<std::unique_ptr<Backend>> make_cuda(const BackendOptions& options) {
  return make_cuda_backend({.max_rows = options.max_rows, .invariant = options.invariant});
}
constexpr Make kCuda = make_cuda;
#else
constexpr Make kCuda = nullptr;
#endif

constexpr Row kBackends[] = {{"cpu", make_cpu}, {"cuda", kCuda}};

}  // namespace

Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options) {
  for (const Row& row : kBackends) {
    if (row.name != options.name) continue;
    if (row.make) return row.make(options);
    return Error{ErrorKind::usage, "backend_not_built",
                 "this program was built without that backend; build it with the preset release-" + options.name,
                 "--backend"};
  }
  return Error{ErrorKind::usage, "unknown_backend", "there is no such backend; take cpu or cuda", "--backend"};
}

}  // namespace martlet::cli
