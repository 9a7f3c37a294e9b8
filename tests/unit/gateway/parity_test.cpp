#include "gateway/parity.h"

#include <gtest/gtest.h>

namespace martlet::gateway {
namespace {

TEST(CarryOver, TakesWhatWasGivenUpAndNothingElse) {
  const Fingerprint before{{"vocabulary/0", "old"}, {"vocabulary/1", "old"}, {"template/text/0", "old"}};
  Fingerprint now{{"vocabulary/0", "new"}};
  carry_over(now, before, {"vocabulary/1", "greedy/1"});
  EXPECT_EQ(now, (Fingerprint{{"vocabulary/0", "new"}, {"vocabulary/1", "old"}}));
}

TEST(CarryOver, WhatWasAnsweredIsNew) {
  Fingerprint now{{"vocabulary/0", "new"}};
  carry_over(now, {{"vocabulary/0", "old"}}, {"vocabulary/0"});
  EXPECT_EQ(now.at("vocabulary/0"), "new");
}

}  // namespace
}  // namespace martlet::gateway
