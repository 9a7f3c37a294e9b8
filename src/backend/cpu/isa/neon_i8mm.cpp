// NEON with the dot product and 8-bit matrix extensions. Kernels are compiled inside the target region; what runs on
// every processor stays outside.

#include "backend/cpu/isa/portable.h"

#if defined(__aarch64__)
#include "backend/cpu/isa/arm_features.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("dotprod,i8mm"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod+i8mm")
#endif

#include "backend/cpu/isa/neon_i8mm.h"
#include "backend/cpu/kernels/attention_body.h"
#include "backend/cpu/kernels/linear_run.h"
#include "backend/cpu/kernels/vectors_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace martlet::cpu {

const Level kNeonI8mm = {"neon_i8mm", has_matrix_multiply, &linear_kernels<NeonI8mm>, &attention_kernels<NeonI8mm>,
                         &vector_kernels<NeonI8mm>};

}  // namespace martlet::cpu
#endif
