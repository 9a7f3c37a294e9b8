#include "gateway/parity.h"

#include <gtest/gtest.h>

namespace martlet::gateway {
namespace {

// Rounds until it is asked again.
int rounds(OptionalRoutes& routes) {
  int out = 1;
  while (!routes.due()) ++out;
  return out;
}

TEST(OptionalRoutes, HoldAComparisonUpTwiceEachTimeForLonger) {
  OptionalRoutes routes;
  for (int comparison = 0; comparison < 2; ++comparison) {
    EXPECT_TRUE(routes.hold_up());
    EXPECT_EQ(rounds(routes), 1);
    EXPECT_TRUE(routes.hold_up());
    EXPECT_EQ(rounds(routes), 2);
    EXPECT_FALSE(routes.hold_up());
    EXPECT_FALSE(routes.hold_up()) << "and for no other route either";
    EXPECT_TRUE(routes.due()) << "what else holds it up is asked again in the next round";
    routes.finished();
  }
}

TEST(OptionalRoutes, InstancesThatAreComparedAtOnceCountAsOne) {
  OptionalRoutes routes;
  for (int instance = 0; instance < 8; ++instance) EXPECT_TRUE(routes.hold_up());
  EXPECT_EQ(rounds(routes), 1);
  EXPECT_TRUE(routes.hold_up());
}

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
