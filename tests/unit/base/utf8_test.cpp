#include "base/utf8.h"

#include <gtest/gtest.h>

namespace martlet::utf8 {
namespace {

TEST(Utf8, FindsInvalidBytes) {
  EXPECT_TRUE(valid("a\xc3\xa4\xe2\x82\xac\xf0\x9f\xa6\x99"));
  EXPECT_EQ(find_invalid("a\xc0\x80"), 1u);         // overlong
  EXPECT_EQ(find_invalid("ab\xed\xa0\x80"), 2u);    // surrogate
  EXPECT_EQ(find_invalid("\xf4\x90\x80\x80"), 0u);  // past U+10FFFF
  EXPECT_EQ(find_invalid("\xe2\x82"), 0u);          // cut short
}

TEST(Utf8, HoldsBackOnlyWhatCanBeCompleted) {
  EXPECT_EQ(complete_prefix("ab\xe2\x82"), 2u);
  EXPECT_EQ(complete_prefix("ab\xe2\x82\xac"), 5u);
  EXPECT_EQ(complete_prefix("ab\xff"), 3u);
  EXPECT_EQ(complete_prefix("ab\xed\xa0"), 4u);  // a surrogate can never become valid
  EXPECT_EQ(complete_prefix(""), 0u);
}

TEST(Utf8, HeadCutsNoCharacter) {
  EXPECT_EQ(head("ab\xe2\x82\xac", 9), "ab\xe2\x82\xac");
  EXPECT_EQ(head("ab\xe2\x82\xac", 4), "ab");
  EXPECT_EQ(head("ab\xe2\x82\xac", 0), "");
}

TEST(Utf8, ReplacesMaximalInvalidParts) {
  EXPECT_EQ(replace_invalid("a\xe2\x82z\xff"), "a\xef\xbf\xbdz\xef\xbf\xbd");
}

}  // namespace
}  // namespace martlet::utf8
