#pragma once

// f32 activations -> codes: nearest even of x * 127 / max|x|. Groups whose values are all below 2^-100 count as zero,
// so that no division overflows. A group with NaN or infinity gets the scale NaN, which makes every output NaN.

#include "backend/cpu/isa/unroll.h"
#include "backend/cpu/kernels/activations.h"
#include "backend/cpu/kernels/linear.h"

namespace martlet::cpu {
namespace {

struct GroupScale {
  float scale, inverse;
};

template <class V, int Size>
GroupScale group_scale(const float* x) {
  // Magnitudes as integers: their order is that of the floats, and NaN is above infinity.
  typename V::Int largest = V::zero_int();
  for (int i = 0; i < Size; i += V::lanes) {
    largest = V::max(largest, V::bit_and(V::load_int(x + i), V::broadcast(0x7fffffff)));
  }
  int32_t bits = V::max_int(largest);
  if (bits >= 0x7f800000) return {std::numeric_limits<float>::quiet_NaN(), 0};
  auto magnitude = std::bit_cast<float>(bits);
  if (magnitude < 0x1p-100f) return {0, 0};
  return {magnitude / 127.0f, 127.0f / magnitude};
}

// Sixteen codes; returns their sum.
template <class V>
MARTLET_INLINE int32_t quantize_16(const float* x, float inverse, int8_t* codes) {
  typename V::Int sum = V::zero_int();
  unroll<16 / V::lanes>([&](auto i) MARTLET_INLINED {
    typename V::Int code = V::to_int(V::mul(V::load(x + i * V::lanes), V::broadcast(inverse)));
    V::store_bytes(codes + i * V::lanes, code);
    sum = V::add(sum, code);
  });
  return V::sum_int(sum);
}

// The same for a whole group; `inverse` 0 stands for values that must not be touched (not finite).
template <class V, int Size, class Sums>
void quantize_group(const float* x, float inverse, int8_t* codes, Sums sums) {
  if (inverse == 0) {
    std::memset(codes, 0, Size);
    for (int g = 0; g < Size / 16; ++g) sums(g, 0);
    return;
  }
  for (int g = 0; g < Size / 16; ++g) sums(g, quantize_16<V>(x + 16 * g, inverse, codes + 16 * g));
}

template <class V>
void quantize_32(const float* x, int64_t columns, Activation32* out) {
  for (int64_t b = 0; b < columns / 32; ++b, x += 32) {
    Activation32& block = out[b];
    GroupScale s = group_scale<V, 32>(x);
    int32_t sum = 0;
    quantize_group<V, 32>(x, s.inverse, block.codes, [&](int, int32_t part) MARTLET_INLINED { sum += part; });
    block.scale = s.scale;
    block.scaled_sum = s.scale * static_cast<float>(sum);
    block.sum = sum;
    block.unused = 0;
  }
}

template <class V>
void quantize_256(const float* x, int64_t columns, Activation256* out) {
  for (int64_t b = 0; b < columns / 256; ++b, x += 256) {
    Activation256& block = out[b];
    GroupScale s = group_scale<V, 256>(x);
    block.scale = s.scale;
    quantize_group<V, 256>(x, s.inverse, block.codes,
                           [&](int g, int32_t sum) MARTLET_INLINED { block.sums_16[g] = static_cast<int16_t>(sum); });
    for (int g = 0; g < 8; ++g)
      block.sums_32[g] = static_cast<int16_t>(block.sums_16[2 * g] + block.sums_16[2 * g + 1]);
  }
}

template <class V>
void quantize(ActivationKind kind, const float* x, int64_t columns, std::byte* out) {
  switch (kind) {
    case ActivationKind::f32:
      std::memcpy(out, x, static_cast<size_t>(columns) * sizeof(float));
      break;
    case ActivationKind::q8_32:
      quantize_32<V>(x, columns, reinterpret_cast<Activation32*>(out));
      break;
    case ActivationKind::q8_256:
      quantize_256<V>(x, columns, reinterpret_cast<Activation256*>(out));
      break;
  }
}

}  // namespace
}  // namespace martlet::cpu
