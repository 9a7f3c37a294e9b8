#pragma once

// How each cache type becomes halves and comes from floats: all arithmetic of attention is of halves.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "backend/cuda/kernels/cached.h"
#include "backend/cuda/kernels/unpack.cuh"

namespace martlet::cuda {

// A type says what Element keeps a value, what Eight neighbours are loaded as, and how they become four pairs of
// halves; `scales`: a pair of halves for each of these.

struct CachedF16 {
  static constexpr CacheType kType = CacheType::f16;
  using Element = uint16_t;
  using Eight = uint4;
  __device__ static uint4 halves(const Eight& eight, const uint4&) { return eight; }
  __device__ static Element encode(float x) { return __half_as_ushort(__float2half_rn(x)); }
};

struct CachedBf16 {
  static constexpr CacheType kType = CacheType::bf16;
  using Element = uint16_t;
  using Eight = uint4;
  __device__ static uint32_t pair(uint32_t two) {
    return as_bits(__floats2half2_rn(__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000)));
  }
  __device__ static uint4 halves(const Eight& eight, const uint4&) {
    return {pair(eight.x), pair(eight.y), pair(eight.z), pair(eight.w)};
  }
  __device__ static Element encode(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
};

// Four bits of exponent, three of mantissa; what is larger than 448 becomes that.
struct CachedFp8 {
  static constexpr CacheType kType = CacheType::fp8;
  using Element = uint8_t;
  using Eight = uint2;
  __device__ static uint32_t pair(uint32_t two) {
    const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(two), __NV_E4M3);
    return halves.x | static_cast<uint32_t>(halves.y) << 16;
  }
  __device__ static uint4 halves(const Eight& eight, const uint4&) {
    return {pair(eight.x & 0xffff), pair(eight.x >> 16), pair(eight.y & 0xffff), pair(eight.y >> 16)};
  }
  __device__ static Element encode(float x) { return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3); }
};

// Codes of -127 .. 127, plus 128 each, times a scale: the CPU's codes and, where it is a normal half, its scale.
struct CachedQ8 {
  static constexpr CacheType kType = CacheType::q8;
  static constexpr int kOffset = 128;
  using Element = uint8_t;
  using Eight = uint2;
  // 1024 + code + kOffset is what these bits say.
  __device__ static uint32_t pair(uint32_t four, uint32_t bytes, uint32_t scales) {
    const __half2 code = __hsub2(as_halves(__byte_perm(four, 0x64646464, bytes)), as_halves(0x64806480));
    return as_bits(__hmul2(code, as_halves(scales)));
  }
  __device__ static uint4 halves(const Eight& eight, const uint4& scales) {
    return {pair(eight.x, 0x4140, scales.x), pair(eight.x, 0x4342, scales.y), pair(eight.y, 0x4140, scales.z),
            pair(eight.y, 0x4342, scales.w)};
  }
  // Of a block whose values the lanes of a warp have: the largest magnitude / 127, rounded up to a bfloat16.
  __device__ static __half scale_of(float x) {
    const unsigned largest = __reduce_max_sync(~0u, __float_as_uint(x) & 0x7fffffff);
    const unsigned scale = __float_as_uint(__uint_as_float(largest) / 127) + 0xffff;
    const __half out = __float2half_ru(__uint_as_float(scale & 0xffff0000));
    return largest < 0x7f800000 && !__hisinf(out) ? out : __ushort_as_half(0x7fff);  // what is not finite stays so
  }
  __device__ static Element encode(float x, __half scale) {
    const float s = __half2float(scale);
    return static_cast<Element>(s > 0 ? kOffset + __float2int_rn(x * (1 / s)) : kOffset);
  }
};

template <class Type>
inline constexpr int kBlock = format_of(Type::kType).block;

__device__ inline void load_two(const uint4* from, uint4& a, uint4& b) {
  a = from[0], b = from[1];
}
__device__ inline void load_two(const uint2* from, uint2& a, uint2& b) {
  const uint4 both = *reinterpret_cast<const uint4*>(from);
  a = {both.x, both.y}, b = {both.z, both.w};
}

// One head of a page.
template <class Type>
struct CachedHead {
  using Element = typename Type::Element;
  using Eight = typename Type::Eight;
  std::byte* data;
  int key_size, value_size;

  __device__ int key_scales() const { return static_cast<int>(format_of(Type::kType).scales(key_size)); }  // of a token
  __device__ int64_t bytes() const { return format_of(Type::kType).head_bytes(key_size, value_size); }

  __device__ Element* key(int token) const { return reinterpret_cast<Element*>(data) + token * key_size; }
  // Value `value` of a token; its next token follows.
  __device__ Element* value(int value, int token) const {
    return reinterpret_cast<Element*>(data) + kPageTokens * (key_size + value) + token;
  }
  __device__ __half* key_scale(int token, int block) const {
    return reinterpret_cast<__half*>(value(value_size, 0)) + token * key_scales() + block;
  }
  __device__ __half* value_scale(int block, int token) const {
    return key_scale(kPageTokens, block * kPageTokens) + token;
  }

  // Values first .. first + 15 of a key as halves. What lies past its end is that of other values.
  __device__ void load_key(int token, int first, uint32_t* out) const {
    first = min(first, key_size - 16);
    Eight a, b;
    load_two(reinterpret_cast<const Eight*>(key(token) + first), a, b);
    uint4 scales = {};
    if constexpr (kBlock<Type> != 0) {
      const uint32_t scale = as_bits(__half2half2(*key_scale(token, first / kBlock<Type>)));
      scales = {scale, scale, scale, scale};
    }
    const uint4 low = Type::halves(a, scales), high = Type::halves(b, scales);
    out[0] = low.x, out[1] = low.y, out[2] = low.z, out[3] = low.w;
    out[4] = high.x, out[5] = high.y, out[6] = high.z, out[7] = high.w;
  }
  // Value `value` of eight tokens, and what halves() wants beside: the same for all values of a block.
  __device__ Eight load_value(int at, int token) const { return *reinterpret_cast<const Eight*>(value(at, token)); }
  __device__ uint4 load_value_scales(int at, int token) const {
    if constexpr (kBlock<Type> == 0)
      return {};
    else
      return *reinterpret_cast<const uint4*>(value_scale(at / kBlock<Type>, token));
  }

  // A value for each lane of a warp, `first` the first lane's: 32 of a token's key or value.
  __device__ void store_key(int token, int first, float x) const {
    store(x, first, key_size, key(token) + first + threadIdx.x % 32, key_scale(token, 0) + first / 32);
  }
  __device__ void store_value(int token, int first, float x) const {
    store(x, first, value_size, value(first + threadIdx.x % 32, token), value_scale(first / 32, token));
  }

 private:
  __device__ static void store(float x, int first, int size, Element* to, __half* scale) {
    const int lane = threadIdx.x % 32;
    const bool exists = first + lane < size;
    if constexpr (kBlock<Type> == 0) {
      if (exists) *to = Type::encode(x);
    } else {
      static_assert(kBlock<Type> == 32);
      const __half of_block = Type::scale_of(exists ? x : 0);
      if (exists) *to = Type::encode(x, of_block);
      if (lane == 0) *scale = of_block;
    }
  }
};

}  // namespace martlet::cuda
