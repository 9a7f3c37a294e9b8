#pragma once

// The NEON vocabulary (with the dot product extension): four rows in a vector. Meanings: scalar.h.
// sdot multiplies signed bytes: every range of codes fits.

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/cpu/isa/unroll.h"

namespace martlet::cpu {
namespace {

struct Neon {
  static constexpr int lanes = 4;
  static constexpr int direct_tokens = 8;
  static constexpr int64_t least_ahead = 40 << 10;
  static constexpr int panel_vectors = 4;
  static constexpr int panel_tokens = 4;
  static constexpr int signed_bias = 0;
  template <Codes>
  static constexpr int depth = 64;  // 32-bit sums hold any block

  using Int = int32x4_t;
  using Float = float32x4_t;
  using Partial = int32x4_t;

  // --- floats
  MARTLET_INLINE static Float zero() { return vdupq_n_f32(0); }
  MARTLET_INLINE static Float broadcast(float x) { return vdupq_n_f32(x); }
  MARTLET_INLINE static Float load(const float* p) { return vld1q_f32(p); }
  MARTLET_INLINE static void store(float* p, Float x) { vst1q_f32(p, x); }
  MARTLET_INLINE static Float load_half(const uint16_t* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
  MARTLET_INLINE static void store_half(uint16_t* p, Float x) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x))); }
  MARTLET_INLINE static Float load_bfloat16(const uint16_t* p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
  }
  MARTLET_INLINE static Float add(Float a, Float b) { return vaddq_f32(a, b); }
  MARTLET_INLINE static Float sub(Float a, Float b) { return vsubq_f32(a, b); }
  MARTLET_INLINE static Float mul(Float a, Float b) { return vmulq_f32(a, b); }
  MARTLET_INLINE static Float div(Float a, Float b) { return vdivq_f32(a, b); }
  MARTLET_INLINE static Float max(Float a, Float b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }  // b where one is NaN
  MARTLET_INLINE static Float min(Float a, Float b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
  MARTLET_INLINE static Float fma(Float a, Float b, Float c) { return vfmaq_f32(c, a, b); }
  MARTLET_INLINE static Float fnma(Float a, Float b, Float c) { return vfmsq_f32(c, a, b); }
  MARTLET_INLINE static Float round(Float a) { return vrndnq_f32(a); }
  MARTLET_INLINE static Float swap_neighbours(Float a) { return vrev64q_f32(a); }
  MARTLET_INLINE static float sum(Float a) {
    float32x2_t x = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(x, 0) + vget_lane_f32(x, 1);
  }
  MARTLET_INLINE static float max(Float a) {
    Float x = max(a, vextq_f32(a, a, 2));
    return vgetq_lane_f32(max(x, vrev64q_f32(x)), 0);
  }

  // --- 32-bit integers
  MARTLET_INLINE static Int zero_int() { return vdupq_n_s32(0); }
  MARTLET_INLINE static Int broadcast(int32_t x) { return vdupq_n_s32(x); }
  MARTLET_INLINE static Int load_int(const void* p) {
    return vreinterpretq_s32_u8(vld1q_u8(static_cast<const uint8_t*>(p)));
  }
  MARTLET_INLINE static Int add(Int a, Int b) { return vaddq_s32(a, b); }
  MARTLET_INLINE static Int sub(Int a, Int b) { return vsubq_s32(a, b); }
  MARTLET_INLINE static Int mul(Int a, Int b) { return vmulq_s32(a, b); }
  MARTLET_INLINE static Int max(Int a, Int b) { return vmaxq_s32(a, b); }
  MARTLET_INLINE static Int bit_and(Int a, Int b) { return vandq_s32(a, b); }
  MARTLET_INLINE static Int bit_or(Int a, Int b) { return vorrq_s32(a, b); }
  MARTLET_INLINE static Int bit_xor(Int a, Int b) { return veorq_s32(a, b); }
  MARTLET_INLINE static Int left(Int a, int bits) { return vshlq_s32(a, vdupq_n_s32(bits)); }
  MARTLET_INLINE static Int right(Int a, int bits) {
    return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a), vdupq_n_s32(-bits)));
  }
  MARTLET_INLINE static Int right_signed(Int a, int bits) { return vshlq_s32(a, vdupq_n_s32(-bits)); }
  MARTLET_INLINE static int32_t max_int(Int a) { return vmaxvq_s32(a); }
  MARTLET_INLINE static Float to_float(Int a) { return vcvtq_f32_s32(a); }
  MARTLET_INLINE static Int to_int(Float a) { return vcvtnq_s32_f32(a); }
  MARTLET_INLINE static Float as_float(Int a) { return vreinterpretq_f32_s32(a); }
  MARTLET_INLINE static Int as_int(Float a) { return vreinterpretq_s32_f32(a); }
  MARTLET_INLINE static Float low_half(Int a) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(vreinterpretq_u32_s32(a))));
  }
  MARTLET_INLINE static Float high_half(Int a) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vshrn_n_u32(vreinterpretq_u32_s32(a), 16)));
  }
  MARTLET_INLINE static Int load_bytes(const std::byte* p) {
    int32_t four;
    std::memcpy(&four, p, 4);
    return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four)))));
  }
  MARTLET_INLINE static void store_bytes(int8_t* p, Int a) {
    int16x4_t words = vmovn_s32(a);
    int8x8_t low = vmovn_s16(vcombine_s16(words, words));
    int32_t four = vget_lane_s32(vreinterpret_s32_s8(low), 0);
    std::memcpy(p, &four, 4);
  }
  MARTLET_INLINE static int32_t sum_int(Int a) { return vaddvq_s32(a); }

  // --- bytes
  MARTLET_INLINE static int8x16_t as_bytes(Int a) { return vreinterpretq_s8_s32(a); }
  MARTLET_INLINE static Int broadcast_byte(uint8_t x) { return vreinterpretq_s32_u8(vdupq_n_u8(x)); }
  MARTLET_INLINE static Int broadcast_four(const void* p) {
    int32_t x;
    std::memcpy(&x, p, 4);
    return vdupq_n_s32(x);
  }
  MARTLET_INLINE static Int sub_bytes(Int a, Int b) { return vreinterpretq_s32_s8(vsubq_s8(as_bytes(a), as_bytes(b))); }
  using Table = int8x16_t;
  MARTLET_INLINE static Table table(const int8_t (&values)[16]) { return vld1q_s8(values); }
  MARTLET_INLINE static Int lookup(Table t, Int index) {
    return vreinterpretq_s32_s8(vqtbl1q_s8(t, vreinterpretq_u8_s32(index)));
  }
  template <int K>
  MARTLET_INLINE static Int fifth_bits(Int bits) {
    constexpr uint8_t b = K / 2;  // the byte that holds these four bits
    uint8x16_t spread = vreinterpretq_u8_s32(in_each_lane<b, b, b, b>(bits));
    uint8x16_t mask = vreinterpretq_u8_u32(vdupq_n_u32(K % 2 ? 0x80402010u : 0x08040201u));
    return vreinterpretq_s32_u8(vandq_u8(vtstq_u8(spread, mask), vdupq_n_u8(16)));
  }
  // Bytes A, B, C and D of each lane, from the low end; 255 makes zero.
  template <uint8_t A, uint8_t B, uint8_t C, uint8_t D>
  MARTLET_INLINE static Int in_each_lane(Int x) {
    constexpr auto at = [](uint8_t index, int lane) {
      return static_cast<uint8_t>(index == 255 ? 255 : index + 4 * lane);
    };
    static constexpr uint8_t kIndex[16] = {at(A, 0), at(B, 0), at(C, 0), at(D, 0), at(A, 1), at(B, 1),
                                           at(C, 1), at(D, 1), at(A, 2), at(B, 2), at(C, 2), at(D, 2),
                                           at(A, 3), at(B, 3), at(C, 3), at(D, 3)};
    return vreinterpretq_s32_s8(vqtbl1q_s8(as_bytes(x), vld1q_u8(kIndex)));
  }

  // --- rows
  struct Rows {
    const std::byte* first;
    int64_t stride;

    MARTLET_INLINE Rows(const std::byte* first, int64_t stride) : first(first), stride(stride) {}
    MARTLET_INLINE void advance(int64_t bytes) { first += bytes; }
    MARTLET_INLINE void columns(int64_t offset, Int (&c)[4]) const {
      const std::byte* p = first + offset;
      Int r0 = load_int(p), r1 = load_int(p + stride), r2 = load_int(p + 2 * stride), r3 = load_int(p + 3 * stride);
      int64x2_t x = vreinterpretq_s64_s32(vtrn1q_s32(r0, r1)), y = vreinterpretq_s64_s32(vtrn2q_s32(r0, r1));
      int64x2_t z = vreinterpretq_s64_s32(vtrn1q_s32(r2, r3)), w = vreinterpretq_s64_s32(vtrn2q_s32(r2, r3));
      c[0] = vreinterpretq_s32_s64(vtrn1q_s64(x, z)), c[1] = vreinterpretq_s32_s64(vtrn1q_s64(y, w));
      c[2] = vreinterpretq_s32_s64(vtrn2q_s64(x, z)), c[3] = vreinterpretq_s32_s64(vtrn2q_s64(y, w));
    }
    template <class T>
    MARTLET_INLINE Int each(int64_t offset) const {
      const std::byte* p = first + offset;
      int32_t values[4];
      for (int i = 0; i < 4; ++i, p += stride) {
        T x;
        std::memcpy(&x, p, sizeof x);
        values[i] = static_cast<int32_t>(x);
      }
      return vld1q_s32(values);
    }
    MARTLET_INLINE Int words(int64_t offset) const { return each<uint32_t>(offset); }
    MARTLET_INLINE Int halves(int64_t offset) const { return each<uint16_t>(offset); }
    MARTLET_INLINE Int bytes(int64_t offset) const { return each<uint8_t>(offset); }
  };

  // --- dot products
  template <Codes C>
  MARTLET_INLINE static Int prepare(Int codes) {
    return codes;
  }
  template <Codes C>
  MARTLET_INLINE static Partial dot(Int codes, Int x) {
    return dot<C>(zero_int(), codes, x);
  }
  template <Codes C>
  MARTLET_INLINE static Partial dot(Partial partial, Int codes, Int x) {
    return vdotq_s32(partial, as_bytes(codes), as_bytes(x));
  }
  MARTLET_INLINE static Int fold(Int sum, Partial partial) { return vaddq_s32(sum, partial); }
  template <int J>
  MARTLET_INLINE static Int factor(Int bytes) {
    return vshrq_n_s32(vshlq_n_s32(bytes, 24 - 8 * J), 24);
  }
  MARTLET_INLINE static Int fold(Int sum, Partial partial, Int factor) { return vmlaq_s32(sum, partial, factor); }
  template <int H>
  MARTLET_INLINE static Int pairs(Int bytes) {
    Int high = in_each_lane<255, 2 * H, 255, 2 * H + 1>(bytes);
    return vreinterpretq_s32_s16(vshrq_n_s16(vreinterpretq_s16_s32(high), 8));
  }
  MARTLET_INLINE static Int dot_pairs(Int sum, Int a, Int b) {
    int16x8_t x = vreinterpretq_s16_s32(a), y = vreinterpretq_s16_s32(b);
    return vaddq_s32(sum, vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y)));
  }

  // --- memory
  template <int Bytes>
  MARTLET_INLINE static const std::byte* prefetch(const std::byte* cursor, Int loaded) {
    int64_t wait = vgetq_lane_s32(loaded, 0);
    asm volatile("and %0, %0, xzr" : "+r"(wait));  // zero, but only once the value has arrived: paces the prefetch
    cursor += wait;
    for (int i = 0; i < Bytes; i += 64) __builtin_prefetch(cursor + i, 0, 2);
    return cursor + Bytes;
  }
};

}  // namespace
}  // namespace martlet::cpu
