#include "base/printable.h"

#include <gtest/gtest.h>

namespace martlet {
namespace {

TEST(Printable, SteersNoTerminal) {
  EXPECT_EQ(printable("a\x1b[31m\n\x7f\xc2\x9b"
                      "b\xff \xc3\xa9"),
            "a?[31m???b\xef\xbf\xbd \xc3\xa9");
  EXPECT_EQ(printable("a\tb\nc\r", "\n\t"), "a\tb\nc?");
}

}  // namespace
}  // namespace martlet
