#pragma once

// Instruction levels of this processor, chosen once at start; MARTLET_ISA forces one.

#include <span>
#include <string_view>

#include "backend/cpu/kernels/linear.h"
#include "base/error.h"

namespace martlet::cpu {

struct AttentionKernels;
struct VectorKernels;

struct Level {
  std::string_view name;  // "scalar", "avx2", "avx512", "neon", "neon_i8mm"
  bool (*available)();    // this processor and operating system can run it
  const LinearKernels* linear;
  const AttentionKernels* attention;
  const VectorKernels* vectors;
};

// One constant a level, defined in the level's own .cpp.
#define MARTLET_LEVEL(constant) extern const Level constant;
#include "backend/cpu/isa/levels.def"
#undef MARTLET_LEVEL

// All levels compiled into this program, slowest first.
std::span<const Level* const> levels();
// The best available level, or the one MARTLET_ISA names. Errors (usage): unknown or unavailable level, with the list.
Result<const Level*> choose_level();

}  // namespace martlet::cpu
