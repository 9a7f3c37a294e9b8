// The AVX2 level. Kernels are compiled inside the target region; what runs on every processor stays outside.

#include "backend/cpu/isa/portable.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

#include "backend/cpu/isa/avx2.h"
#include "backend/cpu/kernels/attention_body.h"
#include "backend/cpu/kernels/linear_run.h"
#include "backend/cpu/kernels/vectors_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace martlet::cpu {
namespace {

// Every processor with FMA and AVX2 has F16C.
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

}  // namespace

const Level kAvx2 = {"avx2", has_avx2, &linear_kernels<Avx2>, &attention_kernels<Avx2>, &vector_kernels<Avx2>};

}  // namespace martlet::cpu
#endif
