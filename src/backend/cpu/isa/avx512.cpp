// The AVX-512 level. Kernels are compiled inside the target region; what runs on every processor stays outside.

#include "backend/cpu/isa/portable.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")
#endif

#include "backend/cpu/isa/avx512.h"
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

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}

}  // namespace

const Level kAvx512 = {"avx512", has_avx512, &linear_kernels<Avx512>, &attention_kernels<Avx512>,
                       &vector_kernels<Avx512>};

}  // namespace martlet::cpu
#endif
