#pragma once

// Whatever a level's kernels include must come before its target region, where inlined library functions would carry
// instructions that an older processor lacks: each level's .cpp includes this first. Vector headers bring their own
// targets.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "backend/cpu/isa/level.h"
#include "backend/cpu/kernels/attention.h"
#include "backend/cpu/kernels/linear.h"
#include "backend/cpu/kernels/vectors.h"
#include "tensor/dequantize.h"
#include "tensor/format.h"
