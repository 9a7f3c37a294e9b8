#pragma once

// The AVX2 vocabulary (with FMA and F16C): eight rows in a vector. Meanings: scalar.h.
// Products are summed in 16 bits as long as that is exact, which takes half the multiplications of 32-bit sums.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/cpu/isa/unroll.h"

namespace martlet::cpu {
namespace {

struct Avx2 {
  static constexpr int lanes = 8;
  static constexpr int direct_tokens = 8;
  static constexpr int64_t least_ahead = 16 << 10;  // a tenth faster than at 40 KB (one stream, Zen)
  static constexpr int panel_vectors = 2;
  static constexpr int panel_tokens = 6;
  static constexpr int signed_bias = 0;
  // Two products of 15 * 127 make 3,810: eight pairs stay below 32,768; likewise 31 and 63; signed bytes only once.
  template <Codes C>
  static constexpr int depth = C == Codes::u4   ? 8
                               : C == Codes::u5 ? 4
                               : C == Codes::u6 ? 2
                                                : 1;

  using Int = __m256i;
  using Float = __m256;
  using Partial = __m256i;  // sixteen 16-bit sums, two a row

  // --- floats
  MARTLET_INLINE static Float zero() { return _mm256_setzero_ps(); }
  MARTLET_INLINE static Float broadcast(float x) { return _mm256_set1_ps(x); }
  MARTLET_INLINE static Float load(const float* p) { return _mm256_loadu_ps(p); }
  MARTLET_INLINE static void store(float* p, Float x) { _mm256_storeu_ps(p, x); }
  MARTLET_INLINE static Float load_half(const uint16_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  MARTLET_INLINE static void store_half(uint16_t* p, Float x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
  MARTLET_INLINE static Float load_bfloat16(const uint16_t* p) {
    return as_float(left(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
  }
  MARTLET_INLINE static Float add(Float a, Float b) { return _mm256_add_ps(a, b); }
  MARTLET_INLINE static Float sub(Float a, Float b) { return _mm256_sub_ps(a, b); }
  MARTLET_INLINE static Float mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
  MARTLET_INLINE static Float div(Float a, Float b) { return _mm256_div_ps(a, b); }
  MARTLET_INLINE static Float max(Float a, Float b) { return _mm256_max_ps(a, b); }
  MARTLET_INLINE static Float min(Float a, Float b) { return _mm256_min_ps(a, b); }
  MARTLET_INLINE static Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
  MARTLET_INLINE static Float fnma(Float a, Float b, Float c) { return _mm256_fnmadd_ps(a, b, c); }
  MARTLET_INLINE static Float round(Float a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  MARTLET_INLINE static Float swap_neighbours(Float a) { return _mm256_permute_ps(a, 0xb1); }
  MARTLET_INLINE static float sum(Float a) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
  }
  MARTLET_INLINE static float max(Float a) {
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
  }

  // --- 32-bit integers
  MARTLET_INLINE static Int zero_int() { return _mm256_setzero_si256(); }
  MARTLET_INLINE static Int broadcast(int32_t x) { return _mm256_set1_epi32(x); }
  MARTLET_INLINE static Int load_int(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  MARTLET_INLINE static Int add(Int a, Int b) { return _mm256_add_epi32(a, b); }
  MARTLET_INLINE static Int sub(Int a, Int b) { return _mm256_sub_epi32(a, b); }
  MARTLET_INLINE static Int mul(Int a, Int b) { return _mm256_mullo_epi32(a, b); }
  MARTLET_INLINE static Int max(Int a, Int b) { return _mm256_max_epi32(a, b); }
  MARTLET_INLINE static Int bit_and(Int a, Int b) { return _mm256_and_si256(a, b); }
  MARTLET_INLINE static Int bit_or(Int a, Int b) { return _mm256_or_si256(a, b); }
  MARTLET_INLINE static Int bit_xor(Int a, Int b) { return _mm256_xor_si256(a, b); }
  MARTLET_INLINE static Int left(Int a, int bits) { return _mm256_slli_epi32(a, bits); }
  MARTLET_INLINE static Int right(Int a, int bits) { return _mm256_srli_epi32(a, bits); }
  MARTLET_INLINE static Int right_signed(Int a, int bits) { return _mm256_srai_epi32(a, bits); }
  MARTLET_INLINE static int32_t max_int(Int a) {
    __m128i x = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
  }
  MARTLET_INLINE static Float to_float(Int a) { return _mm256_cvtepi32_ps(a); }
  MARTLET_INLINE static Int to_int(Float a) { return _mm256_cvtps_epi32(a); }
  MARTLET_INLINE static Float as_float(Int a) { return _mm256_castsi256_ps(a); }
  MARTLET_INLINE static Int as_int(Float a) { return _mm256_castps_si256(a); }
  // The low halves of all lanes, then the high ones: the same shuffles for both, so that who needs both pays once.
  MARTLET_INLINE static Int halves_apart(Int a) {
    Int apart = _mm256_shuffle_epi8(a, _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,  //
                                                        0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    return _mm256_permute4x64_epi64(apart, 0xd8);
  }
  MARTLET_INLINE static Float low_half(Int a) { return _mm256_cvtph_ps(_mm256_castsi256_si128(halves_apart(a))); }
  MARTLET_INLINE static Float high_half(Int a) { return _mm256_cvtph_ps(_mm256_extracti128_si256(halves_apart(a), 1)); }
  MARTLET_INLINE static Int load_bytes(const std::byte* p) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  MARTLET_INLINE static void store_bytes(int8_t* p, Int a) {
    Int low = _mm256_shuffle_epi8(a, _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  //
                                                      0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
    __m128i x = _mm_unpacklo_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), x);
  }
  MARTLET_INLINE static int32_t sum_int(Int a) {
    __m128i x = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
  }

  // --- bytes
  MARTLET_INLINE static Int broadcast_byte(uint8_t x) { return _mm256_set1_epi8(static_cast<char>(x)); }
  MARTLET_INLINE static Int broadcast_four(const void* p) {
    int32_t x;
    std::memcpy(&x, p, 4);
    return _mm256_set1_epi32(x);
  }
  MARTLET_INLINE static Int sub_bytes(Int a, Int b) { return _mm256_sub_epi8(a, b); }
  using Table = Int;
  MARTLET_INLINE static Table table(const int8_t (&values)[16]) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values)));
  }
  MARTLET_INLINE static Int lookup(Table t, Int index) { return _mm256_shuffle_epi8(t, index); }
  template <int K>
  MARTLET_INLINE static Int fifth_bits(Int bits) {
    constexpr char b = K / 2;  // the byte that holds these four bits
    Int spread =
        _mm256_shuffle_epi8(bits, _mm256_setr_epi8(b, b, b, b, b + 4, b + 4, b + 4, b + 4, b + 8, b + 8, b + 8, b + 8,
                                                   b + 12, b + 12, b + 12, b + 12, b, b, b, b, b + 4, b + 4, b + 4,
                                                   b + 4, b + 8, b + 8, b + 8, b + 8, b + 12, b + 12, b + 12, b + 12));
    Int mask = broadcast(static_cast<int32_t>(K % 2 ? 0x80402010u : 0x08040201u));
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(spread, mask), mask), _mm256_set1_epi8(16));
  }

  // --- rows
  struct Rows {
    const std::byte *low, *high;  // rows 0 and 4: with the stride's multiples, every address is one instruction away
    int64_t stride, stride3;

    MARTLET_INLINE Rows(const std::byte* first, int64_t stride)
        : low(first), high(first + 4 * stride), stride(stride), stride3(3 * stride) {}
    MARTLET_INLINE void advance(int64_t bytes) { low += bytes, high += bytes; }
    MARTLET_INLINE static Int two(const std::byte* a, const std::byte* b) {
      return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a))),
                                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(b)), 1);
    }
    MARTLET_INLINE void columns(int64_t offset, Int (&c)[4]) const {
      const std::byte *a = low + offset, *b = high + offset;
      Int r0 = two(a, b), r1 = two(a + stride, b + stride);
      Int r2 = two(a + 2 * stride, b + 2 * stride), r3 = two(a + stride3, b + stride3);
      Int x = _mm256_unpacklo_epi32(r0, r1), y = _mm256_unpackhi_epi32(r0, r1);
      Int z = _mm256_unpacklo_epi32(r2, r3), w = _mm256_unpackhi_epi32(r2, r3);
      c[0] = _mm256_unpacklo_epi64(x, z), c[1] = _mm256_unpackhi_epi64(x, z);
      c[2] = _mm256_unpacklo_epi64(y, w), c[3] = _mm256_unpackhi_epi64(y, w);
    }
    template <class T>
    MARTLET_INLINE static T read(const std::byte* p) {
      T x;
      std::memcpy(&x, p, sizeof x);
      return x;
    }
    template <class T>
    MARTLET_INLINE Int each(int64_t offset) const {
      const std::byte *a = low + offset, *b = high + offset;
      return _mm256_setr_epi32(read<T>(a), read<T>(a + stride), read<T>(a + 2 * stride), read<T>(a + stride3),  //
                               read<T>(b), read<T>(b + stride), read<T>(b + 2 * stride), read<T>(b + stride3));
    }
    MARTLET_INLINE Int words(int64_t offset) const { return each<int32_t>(offset); }
    MARTLET_INLINE Int halves(int64_t offset) const { return each<uint16_t>(offset); }
    MARTLET_INLINE Int bytes(int64_t offset) const { return each<uint8_t>(offset); }
  };

  // --- dot products
  // g++ reorders 16-bit additions and then spills; tying each sum to a register keeps the written order.
  MARTLET_INLINE static Partial tied(Partial x) {
    asm("" : "+x"(x));
    return x;
  }
  template <Codes C>
  MARTLET_INLINE static Int prepare(Int codes) {
    return codes;
  }
  template <Codes C>
  MARTLET_INLINE static Partial dot(Int codes, Int x) {
    if constexpr (C == Codes::s8) return _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(x, codes));
    return tied(_mm256_maddubs_epi16(codes, x));
  }
  template <Codes C>
  MARTLET_INLINE static Partial dot(Partial partial, Int codes, Int x) {
    return tied(_mm256_add_epi16(partial, _mm256_maddubs_epi16(codes, x)));
  }
  MARTLET_INLINE static Int fold(Int sum, Partial partial) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(partial, _mm256_set1_epi16(1)));
  }
  template <int J>
  MARTLET_INLINE static Int factor(Int bytes) {  // as both 16-bit halves of a lane: madd multiplies and adds at once
    constexpr char j = J;
    Int high = _mm256_shuffle_epi8(
        bytes, _mm256_setr_epi8(-1, j, -1, j, -1, j + 4, -1, j + 4, -1, j + 8, -1, j + 8, -1, j + 12, -1, j + 12,  //
                                -1, j, -1, j, -1, j + 4, -1, j + 4, -1, j + 8, -1, j + 8, -1, j + 12, -1, j + 12));
    return _mm256_srai_epi16(high, 8);
  }
  MARTLET_INLINE static Int fold(Int sum, Partial partial, Int factor) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(partial, factor));
  }
  template <int H>
  MARTLET_INLINE static Int pairs(Int bytes) {
    constexpr char a = 2 * H, b = 2 * H + 1;
    Int high = _mm256_shuffle_epi8(
        bytes, _mm256_setr_epi8(-1, a, -1, b, -1, a + 4, -1, b + 4, -1, a + 8, -1, b + 8, -1, a + 12, -1, b + 12,  //
                                -1, a, -1, b, -1, a + 4, -1, b + 4, -1, a + 8, -1, b + 8, -1, a + 12, -1, b + 12));
    return _mm256_srai_epi16(high, 8);
  }
  MARTLET_INLINE static Int dot_pairs(Int sum, Int a, Int b) { return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)); }

  // --- one row along its columns (SumsAlong in linear_256.h): a vector is 32 bytes of that row
  MARTLET_INLINE static Partial dot_along(Int codes, const int8_t* x) {
    return _mm256_maddubs_epi16(codes, load_int(x));
  }
  // Sixteen signed bytes as 16-bit values: 0, 2 .. 14 in the lower half, 1, 3 .. 15 in the upper one.
  MARTLET_INLINE static Int widen_apart(const std::byte* p) {
    return _mm256_cvtepi8_epi16(_mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)),
                                                 _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15)));
  }
  // Each half filled with its 16-bit value J, or with its unsigned byte J as 16-bit values.
  template <int J>
  MARTLET_INLINE static Int repeat_word(Int x) {
    return _mm256_shuffle_epi8(x, _mm256_set1_epi16(2 * J | (2 * J + 1) << 8));
  }
  template <int J>
  MARTLET_INLINE static Int repeat_byte(Int x) {
    return _mm256_shuffle_epi8(x, _mm256_set1_epi16(static_cast<int16_t>(0x8000 | J)));
  }
  // Lane i: the sum of all lanes of x[i].
  MARTLET_INLINE static Int sums_of(const Int (&x)[lanes]) {
    Int low = _mm256_hadd_epi32(_mm256_hadd_epi32(x[0], x[1]), _mm256_hadd_epi32(x[2], x[3]));
    Int high = _mm256_hadd_epi32(_mm256_hadd_epi32(x[4], x[5]), _mm256_hadd_epi32(x[6], x[7]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31));
  }

  // --- memory
  template <int Bytes>
  MARTLET_INLINE static const std::byte* prefetch(const std::byte* cursor, Int loaded) {
    int64_t wait = _mm_cvtsi128_si32(_mm256_castsi256_si128(loaded));
    asm volatile("and $0, %0" : "+r"(wait));  // zero, but only once the value has arrived: paces the prefetch
    cursor += wait;
    for (int i = 0; i < Bytes; i += 64) _mm_prefetch(reinterpret_cast<const char*>(cursor) + i, _MM_HINT_T1);
    return cursor + Bytes;
  }
};

}  // namespace
}  // namespace martlet::cpu
