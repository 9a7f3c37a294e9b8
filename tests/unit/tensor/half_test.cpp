#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tensor/dequantize.h"

namespace martlet {
namespace {

// The definition of binary16, written with ldexp.
float defined(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction ? std::nanf("") : sign * std::numeric_limits<float>::infinity();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

TEST(Half, EveryValueWidensExactlyAndComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float wide = half_to_float(half);
    if (std::isnan(defined(half))) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
      ASSERT_TRUE(std::isnan(half_to_float(float_to_half(wide)))) << bits;
      continue;
    }
    ASSERT_EQ(std::bit_cast<uint32_t>(wide), std::bit_cast<uint32_t>(defined(half))) << bits;
    ASSERT_EQ(float_to_half(wide), half) << bits;
  }
}

// Between two neighbours: below the middle rounds down, above it up, the middle to the even one.
TEST(Half, RoundsToNearestEven) {
  for (uint16_t half = 0; half < 0x7c00; ++half) {
    const double low = half_to_float(half);
    const double high = half == 0x7bff ? 65536.0 : half_to_float(half + 1);
    const auto middle = static_cast<float>((low + high) / 2);  // exact: it needs one bit more than a half has
    ASSERT_EQ(float_to_half(middle), half % 2 ? half + 1 : half) << half;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0f)), half) << half;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 1e9f)), half + 1) << half;
    ASSERT_EQ(float_to_half(-std::nextafter(middle, 1e9f)), (half + 1) | 0x8000) << half;
  }
}

TEST(Half, LargeValuesBecomeInfinity) {
  EXPECT_EQ(float_to_half(65519.996f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(-1e38f), 0xfc00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::infinity()), 0x7c00);
}

TEST(Bfloat16, IsTheUpperHalfOfAFloat) {
  EXPECT_EQ(bfloat16_to_float(0x3f80), 1.0f);
  EXPECT_EQ(bfloat16_to_float(0xc000), -2.0f);
  EXPECT_EQ(std::bit_cast<uint32_t>(bfloat16_to_float(0x0001)), 0x00010000u);
}

}  // namespace
}  // namespace martlet
