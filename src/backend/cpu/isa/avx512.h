#pragma once

// The AVX-512 vocabulary (F, BW, VL, DQ, VNNI): sixteen rows in a vector. Meanings: scalar.h.
// vpdpbusd multiplies unsigned by signed bytes and adds into 32 bits, so signed codes become unsigned by adding 128.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/cpu/isa/unroll.h"

namespace martlet::cpu {
namespace {

struct Avx512 {
  static constexpr int lanes = 16;
  static constexpr int direct_tokens = 8;
  static constexpr int64_t least_ahead = 40 << 10;  // vectors of sixteen rows are twice as long
  static constexpr int panel_vectors = 2;
  static constexpr int panel_tokens = 6;
  static constexpr int signed_bias = 128;
  template <Codes>
  static constexpr int depth = 64;  // 32-bit sums hold any block

  using Int = __m512i;
  using Float = __m512;
  using Partial = __m512i;

  // --- floats
  MARTLET_INLINE static Float zero() { return _mm512_setzero_ps(); }
  MARTLET_INLINE static Float broadcast(float x) { return _mm512_set1_ps(x); }
  MARTLET_INLINE static Float load(const float* p) { return _mm512_loadu_ps(p); }
  MARTLET_INLINE static void store(float* p, Float x) { _mm512_storeu_ps(p, x); }
  MARTLET_INLINE static Float load_half(const uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  MARTLET_INLINE static void store_half(uint16_t* p, Float x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
  MARTLET_INLINE static Float load_bfloat16(const uint16_t* p) {
    return as_float(left(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
  }
  MARTLET_INLINE static Float add(Float a, Float b) { return _mm512_add_ps(a, b); }
  MARTLET_INLINE static Float sub(Float a, Float b) { return _mm512_sub_ps(a, b); }
  MARTLET_INLINE static Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
  MARTLET_INLINE static Float div(Float a, Float b) { return _mm512_div_ps(a, b); }
  MARTLET_INLINE static Float max(Float a, Float b) { return _mm512_max_ps(a, b); }
  MARTLET_INLINE static Float min(Float a, Float b) { return _mm512_min_ps(a, b); }
  MARTLET_INLINE static Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
  MARTLET_INLINE static Float fnma(Float a, Float b, Float c) { return _mm512_fnmadd_ps(a, b, c); }
  MARTLET_INLINE static Float round(Float a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  MARTLET_INLINE static Float swap_neighbours(Float a) { return _mm512_permute_ps(a, 0xb1); }
  MARTLET_INLINE static float sum(Float a) {
    __m256 y = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
  }
  MARTLET_INLINE static float max(Float a) {
    __m256 y = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
  }

  // --- 32-bit integers
  MARTLET_INLINE static Int zero_int() { return _mm512_setzero_si512(); }
  MARTLET_INLINE static Int broadcast(int32_t x) { return _mm512_set1_epi32(x); }
  MARTLET_INLINE static Int load_int(const void* p) { return _mm512_loadu_si512(p); }
  MARTLET_INLINE static Int add(Int a, Int b) { return _mm512_add_epi32(a, b); }
  MARTLET_INLINE static Int sub(Int a, Int b) { return _mm512_sub_epi32(a, b); }
  MARTLET_INLINE static Int mul(Int a, Int b) { return _mm512_mullo_epi32(a, b); }
  MARTLET_INLINE static Int max(Int a, Int b) { return _mm512_max_epi32(a, b); }
  MARTLET_INLINE static Int bit_and(Int a, Int b) { return _mm512_and_si512(a, b); }
  MARTLET_INLINE static Int bit_or(Int a, Int b) { return _mm512_or_si512(a, b); }
  MARTLET_INLINE static Int bit_xor(Int a, Int b) { return _mm512_xor_si512(a, b); }
  MARTLET_INLINE static Int left(Int a, int bits) { return _mm512_slli_epi32(a, static_cast<unsigned>(bits)); }
  MARTLET_INLINE static Int right(Int a, int bits) { return _mm512_srli_epi32(a, static_cast<unsigned>(bits)); }
  MARTLET_INLINE static Int right_signed(Int a, int bits) { return _mm512_srai_epi32(a, static_cast<unsigned>(bits)); }
  MARTLET_INLINE static int32_t max_int(Int a) {
    __m256i y = _mm256_max_epi32(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
    __m128i x = _mm_max_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
    x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
  }
  MARTLET_INLINE static Float to_float(Int a) { return _mm512_cvtepi32_ps(a); }
  MARTLET_INLINE static Int to_int(Float a) { return _mm512_cvtps_epi32(a); }
  MARTLET_INLINE static Float as_float(Int a) { return _mm512_castsi512_ps(a); }
  MARTLET_INLINE static Int as_int(Float a) { return _mm512_castps_si512(a); }
  MARTLET_INLINE static Float low_half(Int a) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)); }
  MARTLET_INLINE static Float high_half(Int a) { return low_half(right(a, 16)); }
  MARTLET_INLINE static Int load_bytes(const std::byte* p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  MARTLET_INLINE static void store_bytes(int8_t* p, Int a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a));
  }
  MARTLET_INLINE static int32_t sum_int(Int a) {
    __m256i y = _mm256_add_epi32(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
    __m128i x = _mm_add_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
    x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
  }

  // --- bytes
  MARTLET_INLINE static Int broadcast_byte(uint8_t x) { return _mm512_set1_epi8(static_cast<char>(x)); }
  MARTLET_INLINE static Int broadcast_four(const void* p) {
    int32_t x;
    std::memcpy(&x, p, 4);
    return _mm512_set1_epi32(x);
  }
  MARTLET_INLINE static Int sub_bytes(Int a, Int b) { return _mm512_sub_epi8(a, b); }
  using Table = Int;
  MARTLET_INLINE static Table table(const int8_t (&values)[16]) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values)));
  }
  MARTLET_INLINE static Int lookup(Table t, Int index) { return _mm512_shuffle_epi8(t, index); }
  template <int K>
  MARTLET_INLINE static Int fifth_bits(Int bits) {
    constexpr char b = K / 2;  // the byte that holds these four bits
    Int spread = _mm512_shuffle_epi8(bits, in_each_quarter(b, b, b, b));
    Int mask = broadcast(static_cast<int32_t>(K % 2 ? 0x80402010u : 0x08040201u));
    return _mm512_maskz_mov_epi8(_mm512_test_epi8_mask(spread, mask), _mm512_set1_epi8(16));
  }
  // Byte indexes of a shuffle within each lane, negative for zero.
  MARTLET_INLINE static Int in_each_quarter(char a, char b, char c, char d) {
    auto at = [](char x, int lane) { return static_cast<char>(x < 0 ? x : x + 4 * lane); };
    return _mm512_broadcast_i32x4(_mm_setr_epi8(at(a, 0), at(b, 0), at(c, 0), at(d, 0), at(a, 1), at(b, 1), at(c, 1),
                                                at(d, 1), at(a, 2), at(b, 2), at(c, 2), at(d, 2), at(a, 3), at(b, 3),
                                                at(c, 3), at(d, 3)));
  }

  // --- rows
  struct Rows {
    const std::byte *a, *b, *c,
        *d;  // rows 0, 4, 8 and 12: with the stride's multiples, every address is one instruction away
    int64_t stride, stride3;

    MARTLET_INLINE Rows(const std::byte* first, int64_t stride)
        : a(first),
          b(first + 4 * stride),
          c(first + 8 * stride),
          d(first + 12 * stride),
          stride(stride),
          stride3(3 * stride) {}
    MARTLET_INLINE void advance(int64_t bytes) { a += bytes, b += bytes, c += bytes, d += bytes; }
    MARTLET_INLINE static __m128i one(const std::byte* p) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    }
    MARTLET_INLINE static __m256i two(const std::byte* p, const std::byte* q) {
      return _mm256_inserti128_si256(_mm256_castsi128_si256(one(p)), one(q), 1);
    }
    MARTLET_INLINE Int four(int64_t at) const {
      return _mm512_inserti64x4(_mm512_castsi256_si512(two(a + at, b + at)), two(c + at, d + at), 1);
    }
    MARTLET_INLINE void columns(int64_t offset, Int (&out)[4]) const {
      Int r0 = four(offset), r1 = four(offset + stride), r2 = four(offset + 2 * stride), r3 = four(offset + stride3);
      Int x = _mm512_unpacklo_epi32(r0, r1), y = _mm512_unpackhi_epi32(r0, r1);
      Int z = _mm512_unpacklo_epi32(r2, r3), w = _mm512_unpackhi_epi32(r2, r3);
      out[0] = _mm512_unpacklo_epi64(x, z), out[1] = _mm512_unpackhi_epi64(x, z);
      out[2] = _mm512_unpacklo_epi64(y, w), out[3] = _mm512_unpackhi_epi64(y, w);
    }
    template <class T>
    MARTLET_INLINE static T read(const std::byte* p) {
      T x;
      std::memcpy(&x, p, sizeof x);
      return x;
    }
    template <class T>
    MARTLET_INLINE __m128i each(const std::byte* p) const {
      return _mm_setr_epi32(read<T>(p), read<T>(p + stride), read<T>(p + 2 * stride), read<T>(p + stride3));
    }
    template <class T>
    MARTLET_INLINE Int each(int64_t offset) const {
      __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(each<T>(a + offset)), each<T>(b + offset), 1);
      __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(each<T>(c + offset)), each<T>(d + offset), 1);
      return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    }
    MARTLET_INLINE Int words(int64_t offset) const { return each<int32_t>(offset); }
    MARTLET_INLINE Int halves(int64_t offset) const { return each<uint16_t>(offset); }
    MARTLET_INLINE Int bytes(int64_t offset) const { return each<uint8_t>(offset); }
  };

  // --- dot products
  template <Codes C>
  MARTLET_INLINE static Int prepare(Int codes) {
    return C == Codes::s8 ? _mm512_xor_si512(codes, _mm512_set1_epi8(-128)) : codes;
  }
  template <Codes C>
  MARTLET_INLINE static Partial dot(Int codes, Int x) {
    return _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes, x);
  }
  template <Codes C>
  MARTLET_INLINE static Partial dot(Partial partial, Int codes, Int x) {
    return _mm512_dpbusd_epi32(partial, codes, x);
  }
  MARTLET_INLINE static Int fold(Int sum, Partial partial) { return _mm512_add_epi32(sum, partial); }
  template <int J>
  MARTLET_INLINE static Int factor(Int bytes) {
    return _mm512_srai_epi32(_mm512_slli_epi32(bytes, 24 - 8 * J), 24);
  }
  MARTLET_INLINE static Int fold(Int sum, Partial partial, Int factor) {
    return _mm512_add_epi32(sum, _mm512_mullo_epi32(partial, factor));
  }
  template <int H>
  MARTLET_INLINE static Int pairs(Int bytes) {
    return _mm512_srai_epi16(_mm512_shuffle_epi8(bytes, in_each_quarter(-1, 2 * H, -1, 2 * H + 1)), 8);
  }
  MARTLET_INLINE static Int dot_pairs(Int sum, Int a, Int b) { return _mm512_dpwssd_epi32(sum, a, b); }

  // --- memory
  template <int Bytes>
  MARTLET_INLINE static const std::byte* prefetch(const std::byte* cursor, Int loaded) {
    int64_t wait = _mm_cvtsi128_si32(_mm512_castsi512_si128(loaded));
    asm volatile("and $0, %0" : "+r"(wait));  // zero, but only once the value has arrived: paces the prefetch
    cursor += wait;
    for (int i = 0; i < Bytes; i += 64) _mm_prefetch(reinterpret_cast<const char*>(cursor) + i, _MM_HINT_T1);
    return cursor + Bytes;
  }
};

}  // namespace
}  // namespace martlet::cpu
