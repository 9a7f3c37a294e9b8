#pragma once

// How each cache type becomes floats and comes from them, on a level's vocabulary V; included inside its target region.
// kCacheFormats says the layouts.

#include "backend/cpu/isa/wide.h"
#include "backend/cpu/kernels/attention.h"

namespace martlet::cpu {
namespace {

// For types whose rows of keys and of values look alike: `row`, then sixteen values from `column` on.
template <class Type>
struct Unpacked {
  template <class V>
  MARTLET_INLINE static void keys(const std::byte* row, int64_t column, Wide<V> (&out)[1]) {
    out[0] = Type::template values<V>(row, column);
  }
};

struct CachedF32 : Unpacked<CachedF32> {
  static constexpr CacheType type = CacheType::f32;
  template <class V>
  MARTLET_INLINE static Wide<V> values(const std::byte* row, int64_t column) {
    return Wide<V>::load(reinterpret_cast<const float*>(row) + column);
  }
  template <class V>
  static void encode(const float* head, int64_t size, std::byte* elements, uint16_t* /*scales*/) {
    std::memcpy(elements, head, static_cast<size_t>(size) * sizeof(float));
  }
};

struct CachedF16 : Unpacked<CachedF16> {
  static constexpr CacheType type = CacheType::f16;
  template <class V>
  MARTLET_INLINE static Wide<V> values(const std::byte* row, int64_t column) {
    return Wide<V>::load_half(reinterpret_cast<const uint16_t*>(row) + column);
  }
  template <class V>
  static void encode(const float* head, int64_t size, std::byte* elements, uint16_t* /*scales*/) {
    auto* out = reinterpret_cast<uint16_t*>(elements);
    for (int64_t i = 0; i < size; i += V::lanes) V::store_half(out + i, V::load(head + i));
  }
};

struct CachedBf16 : Unpacked<CachedBf16> {
  static constexpr CacheType type = CacheType::bf16;
  template <class V>
  MARTLET_INLINE static Wide<V> values(const std::byte* row, int64_t column) {
    return Wide<V>::load_bfloat16(reinterpret_cast<const uint16_t*>(row) + column);
  }
  template <class V>
  static void encode(const float* head, int64_t size, std::byte* elements, uint16_t* /*scales*/) {
    auto* out = reinterpret_cast<uint16_t*>(elements);
    for (int64_t i = 0; i < size; ++i) {
      const auto bits = std::bit_cast<uint32_t>(head[i]);
      const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;  // to nearest even
      out[i] = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded);
    }
  }
};

// Codes of one block: nearest even of x / scale, where the scale is `extreme` / `limit` rounded up to a bfloat16.
// Blocks whose values are all below 2^-100 count as zero, so that no division overflows.
template <class V, int Limit>
uint16_t encode_block(const float* x, int64_t size, int8_t* codes) {
  // Magnitudes as integers: their order is that of the floats, and NaN is above infinity.
  typename V::Int largest = V::zero_int();
  for (int64_t i = 0; i < size; i += V::lanes)
    largest = V::max(largest, V::bit_and(V::load_int(x + i), V::broadcast(0x7fffffff)));
  const int32_t bits = V::max_int(largest);
  const bool finite = bits < 0x7f800000;
  const auto magnitude = std::bit_cast<float>(bits);
  if (!finite || magnitude < 0x1p-100f) {
    std::memset(codes, 0, static_cast<size_t>(size));
    return finite ? 0 : 0x7fc0;
  }
  const uint32_t scale = (std::bit_cast<uint32_t>(magnitude / Limit) + 0xffff) >> 16;
  const auto inverse = V::broadcast(1.0f / std::bit_cast<float>(scale << 16));
  for (int64_t i = 0; i < size; i += V::lanes) V::store_bytes(codes + i, V::to_int(V::mul(V::load(x + i), inverse)));
  return static_cast<uint16_t>(scale);
}

template <class V, int Limit, int Block>
void encode_blocks(const float* head, int64_t size, std::byte* elements, uint16_t* scales) {
  for (int64_t i = 0; i < size; i += Block)
    *scales++ =
        encode_block<V, Limit>(head + i, size - i < Block ? size - i : Block, reinterpret_cast<int8_t*>(elements) + i);
}

struct CachedQ8 : Unpacked<CachedQ8> {
  static constexpr CacheType type = CacheType::q8;
  template <class V>
  MARTLET_INLINE static Wide<V> values(const std::byte* row, int64_t column) {
    Wide<V> out;
    unroll<Wide<V>::parts>(
        [&](auto p) MARTLET_INLINED { out.part[p] = V::to_float(V::load_bytes(row + column + p * V::lanes)); });
    return out;
  }
  template <class V>
  static void encode(const float* head, int64_t size, std::byte* elements, uint16_t* scales) {
    encode_blocks<V, 127, format_of(type).block>(head, size, elements, scales);
  }
};

struct CachedQ4 {
  static constexpr CacheType type = CacheType::q4;
  // The sign-extended nibble that `left` brings to the top of each lane.
  template <class V>
  MARTLET_INLINE static typename V::Float nibble(typename V::Int bytes, int left) {
    return V::to_float(V::right_signed(V::left(bytes, left), 28));
  }
  template <class V>
  MARTLET_INLINE static Wide<V> values(const std::byte* row, int64_t column) {
    const std::byte* group = row + column / 32 * 16;
    const int left = (column & 16) ? 24 : 28;
    Wide<V> out;
    unroll<Wide<V>::parts>([&](auto p)
                               MARTLET_INLINED { out.part[p] = nibble<V>(V::load_bytes(group + p * V::lanes), left); });
    return out;
  }
  template <class V>
  MARTLET_INLINE static void keys(const std::byte* row, int64_t column, Wide<V> (&out)[2]) {
    unroll<Wide<V>::parts>([&](auto p) MARTLET_INLINED {
      const auto bytes = V::load_bytes(row + column + p * V::lanes);
      out[0].part[p] = nibble<V>(bytes, 28);
      out[1].part[p] = V::to_float(V::right_signed(bytes, 4));
    });
  }
  template <class V>
  static void encode(const float* head, int64_t size, std::byte* elements, uint16_t* scales) {
    encode_blocks<V, 7, format_of(type).block>(head, size, elements, scales);
  }
};

}  // namespace
}  // namespace martlet::cpu
