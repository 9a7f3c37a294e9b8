#include "gateway/tries.h"

#include <gtest/gtest.h>

namespace martlet::gateway {
namespace {

using namespace std::chrono_literals;

TEST(Tries, TwoOneAfterTheOther) {
  Tries tries;
  EXPECT_TRUE(tries.more());
  tries.ended(tries.began(Time{}, 0s));
  EXPECT_TRUE(tries.more());
  tries.ended(tries.began(Time{}, 0s));
  EXPECT_FALSE(tries.more());
}

TEST(Tries, OneThatKeepsWaitingIsHedgedOnce) {
  Tries tries;
  const Tries::Id first = tries.began(Time{}, 50ms);
  EXPECT_EQ(tries.due(), Time{} + 50ms);
  EXPECT_FALSE(tries.hedges(Time{} + 49ms));
  EXPECT_TRUE(tries.hedges(Time{} + 50ms));
  EXPECT_FALSE(tries.hedges(Time{} + 51ms));
  EXPECT_FALSE(tries.due()) << "nothing to wake for";
  const Tries::Id second = tries.began(Time{} + 50ms, 50ms);
  EXPECT_FALSE(tries.due());
  EXPECT_TRUE(tries.speaks(second));
  EXPECT_FALSE(tries.speaks(first));
  EXPECT_TRUE(tries.outrun(first));
  EXPECT_FALSE(tries.more());
}

TEST(Tries, OneThatAnswersIsNotHedgedHoweverLongItTakes) {
  Tries tries;
  const Tries::Id first = tries.began(Time{}, 50ms);
  EXPECT_TRUE(tries.speaks(first));
  EXPECT_FALSE(tries.due()) << "or whoever waits for it would not sleep any more";
  EXPECT_FALSE(tries.hedges(Time{} + 1h));
}

TEST(Tries, OneThatWasNeverSentDoesNotCount) {
  Tries tries;
  const Tries::Id first = tries.began(Time{}, 50ms);
  ASSERT_TRUE(tries.hedges(Time{} + 50ms));
  const Tries::Id second = tries.began(Time{} + 50ms, 0s);
  tries.refused();
  tries.ended(second);
  EXPECT_FALSE(tries.outrun(first)) << "it goes on";
  EXPECT_FALSE(tries.hedges(Time{} + 1h));
  tries.ended(first);
  EXPECT_TRUE(tries.more());
  const Tries::Id third = tries.began(Time{} + 1h, 0s);
  EXPECT_TRUE(third != first && third != second);
  EXPECT_FALSE(tries.more());
}

TEST(Tries, OneThatHasFailedIsNotHedged) {
  Tries tries;
  tries.ended(tries.began(Time{}, 50ms));
  EXPECT_FALSE(tries.hedges(Time{} + 1h));
}

TEST(Tries, AnEndThatIsToldTwiceIsOne) {
  Tries tries;
  const Tries::Id first = tries.began(Time{}, 50ms);
  tries.began(Time{} + 50ms, 0s);
  tries.ended(first);
  tries.ended(first);
  EXPECT_EQ(tries.running(), 1);
}

}  // namespace
}  // namespace martlet::gateway
