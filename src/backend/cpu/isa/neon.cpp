// NEON with the dot product extension. Kernels are compiled inside the target region; what runs on every processor
// stays outside.

#include "backend/cpu/isa/portable.h"

#if defined(__aarch64__)
#include "backend/cpu/isa/arm_features.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod")
#endif

#include "backend/cpu/isa/neon.h"
#include "backend/cpu/kernels/attention_body.h"
#include "backend/cpu/kernels/linear_run.h"
#include "backend/cpu/kernels/vectors_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace martlet::cpu {

const Level kNeon = {"neon", has_dot_product, &linear_kernels<Neon>, &attention_kernels<Neon>, &vector_kernels<Neon>};

}  // namespace martlet::cpu
#endif
