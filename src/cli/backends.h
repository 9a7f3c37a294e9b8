#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "base/error.h"

namespace martlet::cli {

inline constexpr const char* kBackendHelp = "What computes: cpu, or cuda where the program was built for it";

inline constexpr const char* kInvariantHelp =
    "The same bits alone, in a batch, in any chunks of a prompt and with drafts: always so on the cpu, slower on cuda";

struct BackendOptions {
  std::string name = "cpu";
  int32_t threads = 0;   // of the CPU backend; 0: one for each physical core that the process may use
  int32_t max_rows = 0;  // of one step
  // A row's result has the same bits whatever shares its step. The CPU's always has.
  bool invariant = false;
};

// Errors: `usage`, "unknown_backend" or "backend_not_built"; those of the backend.
Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options);

// What a backend's machine is and can do at most, each figure the best of ten passes. Zero or empty: there is no such
// thing, or it cannot be measured.
struct MachineLimits {
  std::string isa;       // the processor's instruction level
  int32_t threads = 0;   // that were measured
  double read_gb_s = 0;  // of the memory that weights lie in, 10^9 bytes a second
  double int8_gops = 0,
         half_gops = 0;  // products of 8-bit values, of halves: 10^9 multiplications and additions a second
};
// Takes a third of a second. Errors: as make_backend().
Result<MachineLimits> measure_limits(const BackendOptions& options);
// MachineLimits::read_gb_s alone. Errors: as make_backend().
Result<double> measure_reading(const BackendOptions& options);

}  // namespace martlet::cli
