#include "net/random_hex.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace martlet::net {
namespace {

TEST(RandomHex, IsTwoDigitsForEachByte) {
  for (const size_t bytes : {0, 1, 8, 16, 32}) {
    const std::string id = random_hex(bytes);
    EXPECT_EQ(id.size(), 2 * bytes);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
  }
}

// That one of them is missing somewhere by chance has a probability below 1e-25.
TEST(RandomHex, EveryPlaceTakesEveryDigitAndNoIdComesTwice) {
  constexpr size_t kIds = 1000, kBytes = 8;
  std::set<std::string> ids;
  std::vector<std::set<char>> digits(2 * kBytes);
  for (size_t i = 0; i < kIds; ++i) {
    const std::string id = random_hex(kBytes);
    for (size_t place = 0; place < id.size(); ++place) digits[place].insert(id[place]);
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), kIds);
  for (const std::set<char>& at_place : digits) EXPECT_EQ(at_place.size(), 16u);
}

// The two digits of a byte are its own: neighbours agree as seldom as chance has it.
TEST(RandomHex, DigitsAreIndependent) {
  const std::string id = random_hex(1 << 16);
  size_t same = 0;
  for (size_t i = 0; i + 1 < id.size(); ++i) same += id[i] == id[i + 1];
  EXPECT_NEAR(static_cast<double>(same) / static_cast<double>(id.size()), 1.0 / 16, 0.01);
}

}  // namespace
}  // namespace martlet::net
