#pragma once

#include <memory>

#include "backend/backend.h"

namespace martlet {

struct CudaOptions {
  int32_t max_rows = 1024;  // of one step
  // A row's result has the same bits whatever shares its step and in whatever chunks a prompt comes.
  bool invariant = false;
};

// The first device that the process may see (CUDA_VISIBLE_DEVICES). Errors: `io`, "no_device" when there is none, or
// one that is too old.
Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaOptions& options = {});

}  // namespace martlet
