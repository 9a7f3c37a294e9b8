#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "base/error.h"

namespace martlet::cli {

inline constexpr const char* kBackendHelp = "What computes: cpu, or cuda where the program was built for it";

struct BackendOptions {
  std::string name = "cpu";
  int32_t threads = 0;   // of the CPU backend; 0: one for each physical core that the process may use
  int32_t max_rows = 0;  // of one step
};

// Errors: `usage`, "unknown_backend" or "backend_not_built"; those of the backend.
Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options);

}  // namespace martlet::cli
