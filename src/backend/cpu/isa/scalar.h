#pragma once

// The scalar vocabulary: plain loops over eight lanes. It defines what each operation of a vocabulary means; the vector
// levels must give the same bits. Operations are listed here in the order in which every vocabulary has them.

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/cpu/isa/unroll.h"
#include "tensor/dequantize.h"

// Operations are calls: inlined, their loops over lanes would make kernels of enormous size.
#define MARTLET_CALL [[gnu::noinline]]

namespace martlet::cpu {
namespace {

struct Scalar {
  static constexpr int lanes = 8;
  static constexpr int direct_tokens = 1;  // tokens that the direct kernel takes at once
  static constexpr int64_t least_ahead = 0;
  static constexpr int panel_vectors = 1;  // the tile of the panel kernel: row vectors
  static constexpr int panel_tokens = 2;   // and tokens
  static constexpr int signed_bias = 0;    // what prepare<Codes::s8> adds to a code
  template <Codes>
  static constexpr int depth = 8;  // products that a partial sum takes exactly, in columns

  struct Int {
    uint32_t v[lanes];
  };
  struct Float {
    float v[lanes];
  };
  using Partial = Int;

  template <class Body>
  MARTLET_INLINE static Int each(Body&& body) {
    Int r;
    for (int i = 0; i < lanes; ++i) r.v[i] = static_cast<uint32_t>(body(i));
    return r;
  }
  template <class Body>
  MARTLET_INLINE static Float each_float(Body&& body) {
    Float r;
    for (int i = 0; i < lanes; ++i) r.v[i] = body(i);
    return r;
  }
  template <class Body>
  MARTLET_INLINE static Int each_byte(Body&& body) {
    return each([&](int i) {
      uint32_t word = 0;
      for (int b = 0; b < 32; b += 8) word |= (static_cast<uint32_t>(body(i, b)) & 255) << b;
      return word;
    });
  }
  static uint32_t byte_at(Int x, int i, int bit) { return x.v[i] >> bit & 255; }
  static int32_t signed_byte_at(Int x, int i, int bit) { return static_cast<int8_t>(x.v[i] >> bit); }

  // --- floats
  MARTLET_CALL static Float zero() {
    return each_float([](int) { return 0.0f; });
  }
  MARTLET_CALL static Float broadcast(float x) {
    return each_float([&](int) { return x; });
  }
  MARTLET_CALL static Float load(const float* p) {
    return each_float([&](int i) { return p[i]; });
  }
  MARTLET_CALL static void store(float* p, Float x) { std::memcpy(p, x.v, sizeof x.v); }
  MARTLET_CALL static Float load_half(const uint16_t* p) {
    return each_float([&](int i) { return half_to_float(p[i]); });
  }
  MARTLET_CALL static void store_half(uint16_t* p, Float x) {  // rounds to nearest even
    for (int i = 0; i < lanes; ++i) p[i] = float_to_half(x.v[i]);
  }
  MARTLET_CALL static Float load_bfloat16(const uint16_t* p) {
    return each_float([&](int i) { return bfloat16_to_float(p[i]); });
  }
  MARTLET_CALL static Float add(Float a, Float b) {
    return each_float([&](int i) { return a.v[i] + b.v[i]; });
  }
  MARTLET_CALL static Float sub(Float a, Float b) {
    return each_float([&](int i) { return a.v[i] - b.v[i]; });
  }
  MARTLET_CALL static Float mul(Float a, Float b) {
    return each_float([&](int i) { return a.v[i] * b.v[i]; });
  }
  MARTLET_CALL static Float div(Float a, Float b) {
    return each_float([&](int i) { return a.v[i] / b.v[i]; });
  }
  MARTLET_CALL static Float max(Float a, Float b) {
    return each_float([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  MARTLET_CALL static Float min(Float a, Float b) {
    return each_float([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  // a * b + c, and c - a * b, rounded once
  MARTLET_CALL static Float fma(Float a, Float b, Float c) {
    return each_float([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
  }
  MARTLET_CALL static Float fnma(Float a, Float b, Float c) {
    return each_float([&](int i) { return std::fma(-a.v[i], b.v[i], c.v[i]); });
  }
  MARTLET_CALL static Float round(Float a) {
    return each_float([&](int i) { return std::nearbyint(a.v[i]); });
  }
  MARTLET_CALL static Float swap_neighbours(Float a) {
    return each_float([&](int i) { return a.v[i ^ 1]; });
  }
  MARTLET_CALL static float sum(Float a) {
    return fold(a, [](float x, float y) { return x + y; });
  }  // halves, then halves of those
  MARTLET_CALL static float max(Float a) {
    return fold(a, [](float x, float y) { return x > y ? x : y; });
  }
  template <class Op>
  static float fold(Float a, Op op) {
    for (int n = lanes / 2; n > 0; n /= 2) {
      for (int i = 0; i < n; ++i) a.v[i] = op(a.v[i], a.v[i + n]);
    }
    return a.v[0];
  }

  // --- 32-bit integers
  MARTLET_CALL static Int zero_int() { return Int{}; }
  MARTLET_CALL static Int broadcast(int32_t x) {
    return each([&](int) { return x; });
  }
  MARTLET_CALL static Int load_int(const void* p) {
    Int r;
    std::memcpy(r.v, p, sizeof r.v);
    return r;
  }
  MARTLET_CALL static Int add(Int a, Int b) {
    return each([&](int i) { return a.v[i] + b.v[i]; });
  }
  MARTLET_CALL static Int sub(Int a, Int b) {
    return each([&](int i) { return a.v[i] - b.v[i]; });
  }
  MARTLET_CALL static Int mul(Int a, Int b) {
    return each([&](int i) { return a.v[i] * b.v[i]; });
  }  // low half
  MARTLET_CALL static Int max(Int a, Int b) {
    return each([&](int i) {
      auto x = static_cast<int32_t>(a.v[i]), y = static_cast<int32_t>(b.v[i]);
      return x > y ? x : y;
    });
  }
  MARTLET_CALL static Int bit_and(Int a, Int b) {
    return each([&](int i) { return a.v[i] & b.v[i]; });
  }
  MARTLET_CALL static Int bit_or(Int a, Int b) {
    return each([&](int i) { return a.v[i] | b.v[i]; });
  }
  MARTLET_CALL static Int bit_xor(Int a, Int b) {
    return each([&](int i) { return a.v[i] ^ b.v[i]; });
  }
  MARTLET_CALL static Int left(Int a, int bits) {
    return each([&](int i) { return a.v[i] << bits; });
  }
  MARTLET_CALL static Int right(Int a, int bits) {
    return each([&](int i) { return a.v[i] >> bits; });
  }
  MARTLET_CALL static Int right_signed(Int a, int bits) {
    return each([&](int i) { return static_cast<int32_t>(a.v[i]) >> bits; });
  }
  MARTLET_CALL static int32_t max_int(Int a) {
    auto best = static_cast<int32_t>(a.v[0]);
    for (int i = 1; i < lanes; ++i) best = best > static_cast<int32_t>(a.v[i]) ? best : static_cast<int32_t>(a.v[i]);
    return best;
  }
  MARTLET_CALL static Float to_float(Int a) {
    return each_float([&](int i) { return static_cast<float>(static_cast<int32_t>(a.v[i])); });
  }
  MARTLET_CALL static Int to_int(Float a) {
    return each([&](int i) { return static_cast<int32_t>(std::lrintf(a.v[i])); });
  }  // to nearest even
  MARTLET_CALL static Float as_float(Int a) {
    return each_float([&](int i) { return std::bit_cast<float>(a.v[i]); });
  }
  MARTLET_CALL static Int as_int(Float a) {
    return each([&](int i) { return std::bit_cast<uint32_t>(a.v[i]); });
  }
  MARTLET_CALL static Float low_half(Int a) {  // the low 16 bits as IEEE half
    return each_float([&](int i) { return half_to_float(static_cast<uint16_t>(a.v[i])); });
  }
  MARTLET_CALL static Float high_half(Int a) { return low_half(right(a, 16)); }
  MARTLET_CALL static Int load_bytes(const std::byte* p) {  // a signed byte for each lane
    return each([&](int i) { return static_cast<int8_t>(p[i]); });
  }
  // The low byte of each lane, lane after lane.
  MARTLET_CALL static void store_bytes(int8_t* p, Int a) {
    for (int i = 0; i < lanes; ++i) p[i] = static_cast<int8_t>(a.v[i]);
  }
  MARTLET_CALL static int32_t sum_int(Int a) {
    uint32_t s = 0;
    for (uint32_t x : a.v) s += x;
    return static_cast<int32_t>(s);
  }

  // --- bytes: four in each lane
  MARTLET_CALL static Int broadcast_byte(uint8_t x) { return broadcast(static_cast<int32_t>(x * 0x01010101u)); }
  MARTLET_CALL static Int broadcast_four(const void* p) {  // the four bytes at p in each lane
    int32_t x;
    std::memcpy(&x, p, 4);
    return broadcast(x);
  }
  MARTLET_CALL static Int sub_bytes(Int a, Int b) {
    return each_byte([&](int i, int bit) { return byte_at(a, i, bit) - byte_at(b, i, bit); });
  }
  using Table = Int;  // sixteen signed bytes
  MARTLET_CALL static Table table(const int8_t (&values)[16]) {
    Int t{};
    std::memcpy(t.v, values, 16);
    return t;
  }
  MARTLET_CALL static Int lookup(Table t, Int index) {  // index bytes 0..15
    return each_byte([&](int i, int bit) {
      uint32_t at = byte_at(index, i, bit);
      return t.v[at / 4] >> at % 4 * 8;
    });
  }
  // Bits 4K .. 4K+3 of each lane become its four bytes, as 16 or 0.
  template <int K>
  MARTLET_CALL static Int fifth_bits(Int bits) {
    return each_byte([&](int i, int bit) { return (bits.v[i] >> (4 * K + bit / 8) & 1) << 4; });
  }

  // --- rows: the same bytes of `lanes` consecutive rows of a matrix
  struct Rows {
    const std::byte* first;
    int64_t stride;

    Rows(const std::byte* first, int64_t stride) : first(first), stride(stride) {}
    void advance(int64_t bytes) { first += bytes; }
    // Sixteen bytes of each row as four columns: lane = row.
    MARTLET_CALL void columns(int64_t offset, Int (&c)[4]) const {
      for (int k = 0; k < 4; ++k) c[k] = read<uint32_t>(offset + 4 * k);
    }
    template <class T>
    MARTLET_INLINE Int read(int64_t offset) const {
      return each([&](int i) {
        T x;
        std::memcpy(&x, first + i * stride + offset, sizeof x);
        return x;
      });
    }
    MARTLET_CALL Int words(int64_t offset) const { return read<uint32_t>(offset); }
    MARTLET_CALL Int halves(int64_t offset) const { return read<uint16_t>(offset); }
    MARTLET_CALL Int bytes(int64_t offset) const { return read<uint8_t>(offset); }
  };

  // --- dot products: codes times activations -127..127, exact
  // A column of signed codes made ready for dot(): plus signed_bias.
  template <Codes C>
  static Int prepare(Int codes) {
    return codes;
  }
  // partial + the four products of each lane. At most depth<C> columns may go into one partial sum.
  template <Codes C>
  MARTLET_CALL static Partial dot(Partial partial, Int codes, Int x) {
    return each([&](int i) {
      int32_t s = 0;
      for (int b = 0; b < 32; b += 8) {
        int32_t code = C == Codes::s8 ? signed_byte_at(codes, i, b) : static_cast<int32_t>(byte_at(codes, i, b));
        s += code * signed_byte_at(x, i, b);
      }
      return partial.v[i] + static_cast<uint32_t>(s);
    });
  }
  template <Codes C>
  MARTLET_CALL static Partial dot(Int codes, Int x) {
    return dot<C>(Int{}, codes, x);
  }
  MARTLET_CALL static Int fold(Int sum, Partial partial) { return add(sum, partial); }
  // Byte J of each lane, signed, as the factor of fold().
  template <int J>
  MARTLET_CALL static Int factor(Int bytes) {
    return each([&](int i) { return signed_byte_at(bytes, i, 8 * J); });
  }
  MARTLET_CALL static Int fold(Int sum, Partial partial, Int factor) { return add(sum, mul(partial, factor)); }
  // Bytes 2H and 2H+1 of each lane, signed, as a pair of 16-bit values for dot_pairs.
  template <int H>
  MARTLET_CALL static Int pairs(Int bytes) {
    return each([&](int i) {
      auto low = static_cast<uint16_t>(signed_byte_at(bytes, i, 16 * H));
      return low | static_cast<uint32_t>(signed_byte_at(bytes, i, 16 * H + 8)) << 16;
    });
  }
  MARTLET_CALL static Int dot_pairs(Int sum, Int a, Int b) {
    return each([&](int i) {
      int32_t low = static_cast<int16_t>(a.v[i]) * static_cast<int16_t>(b.v[i]);
      int32_t high = static_cast<int16_t>(a.v[i] >> 16) * static_cast<int16_t>(b.v[i] >> 16);
      return sum.v[i] + static_cast<uint32_t>(low + high);
    });
  }

  // --- memory: fetches `Bytes` at the cursor towards the second cache level and moves it on; not before `loaded` is
  // there
  template <int Bytes>
  static const std::byte* prefetch(const std::byte* cursor, Int /*loaded*/) {
    return cursor + Bytes;
  }
};

}  // namespace
}  // namespace martlet::cpu
