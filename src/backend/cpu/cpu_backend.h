#pragma once

#include <memory>

#include "backend/backend.h"

namespace martlet {

namespace cpu {
struct Level;
}

struct CpuOptions {
  int32_t threads = 0;                // 0: one for each physical core that the process may use
  const cpu::Level* level = nullptr;  // null: choose_level()
  int32_t max_rows = 1024;            // of one step
  // Multiply weights with activations as they are, not rounded to 8 bits: several times as slow, for reference.
  bool f32_activations = false;
};

// Errors: ErrorKind::usage when MARTLET_ISA names no level of this processor, or for a number of threads beyond 1024;
// ErrorKind::io "no_threads" when the system has none left.
Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuOptions& options = {});

}  // namespace martlet
