// Breaker, pressure, drafts, buckets: rules under a clock of the test's own.

#include <gtest/gtest.h>

#include <random>

#include "gateway/breaker.h"
#include "gateway/buckets.h"
#include "gateway/draft_estimate.h"
#include "gateway/draft_rule.h"
#include "gateway/pressure.h"

namespace martlet::gateway {
namespace {

using namespace std::chrono_literals;

struct Clock {
  Time now{};
  Time after(Duration time) { return now += time; }
};

Breaker up() {
  Breaker breaker;
  breaker.probed(Probe::ok, false, Time{});
  return breaker;
}

TEST(Breaker, StartsWithTheFirstGoodProbe) {
  Breaker breaker;
  EXPECT_FALSE(breaker.admits());
  breaker.probed(Probe::refused, false, Time{});
  EXPECT_FALSE(breaker.admits());
  breaker.probed(Probe::ok, false, Time{});
  EXPECT_TRUE(breaker.admits());
  EXPECT_EQ(breaker.state(), Breaker::State::closed);
}

TEST(Breaker, OpensAfterThreeFailuresInARow) {
  Breaker breaker = up();
  for (int i = 0; i < 2; ++i) breaker.failed(breaker.era(), false, Time{});
  breaker.succeeded(breaker.era());
  for (int i = 0; i < 2; ++i) breaker.failed(breaker.era(), false, Time{});
  EXPECT_TRUE(breaker.admits());
  breaker.failed(breaker.era(), false, Time{});
  EXPECT_FALSE(breaker.admits());
}

TEST(Breaker, OpensAtOnceWhenNobodyListens) {
  Breaker breaker = up();
  breaker.failed(breaker.era(), true, Time{});
  EXPECT_EQ(breaker.state(), Breaker::State::open);
}

TEST(Breaker, ComesBackThroughOneTrial) {
  Clock clock;
  Breaker breaker = up();
  breaker.failed(breaker.era(), true, clock.now);
  breaker.probed(Probe::ok, false, clock.after(500ms));
  EXPECT_EQ(breaker.state(), Breaker::State::open) << "too early";
  breaker.probed(Probe::ok, false, clock.after(500ms));
  ASSERT_EQ(breaker.state(), Breaker::State::half_open);
  EXPECT_TRUE(breaker.admits());
  breaker.began();
  EXPECT_FALSE(breaker.admits()) << "one at a time";
  breaker.abandoned(breaker.era());
  EXPECT_TRUE(breaker.admits());
  breaker.began();
  breaker.succeeded(breaker.era());
  EXPECT_EQ(breaker.state(), Breaker::State::closed);
}

TEST(Breaker, WaitsLongerAfterEachTrialThatFailsButNeverBeyondItsBound) {
  Clock clock;
  Breaker breaker = up();
  breaker.failed(breaker.era(), true, clock.now);
  Duration last{};
  for (int i = 0; i < 6; ++i) {
    const Time opened = clock.now;
    while (breaker.state() != Breaker::State::half_open) breaker.probed(Probe::ok, false, clock.after(100ms));
    EXPECT_GE(clock.now - opened, last);
    EXPECT_LE(clock.now - opened, 4s);
    last = clock.now - opened;
    breaker.began();
    breaker.failed(breaker.era(), false, clock.now);
  }
  EXPECT_EQ(last, 4s);
}

TEST(Pressure, TheSystemsWordIsAFloor) {
  const PressureOptions options;
  EXPECT_EQ(reading_of(0.5, net::MemoryPressure::none, options), 0.5);
  EXPECT_EQ(reading_of(0.5, net::MemoryPressure::some, options), options.warning);
  EXPECT_EQ(reading_of(0.99, net::MemoryPressure::some, options), 0.99);
  EXPECT_EQ(reading_of(0.5, net::MemoryPressure::critical, options), options.critical);
}

TEST(Breaker, WhatBeganBeforeItOpenedSaysNothing) {
  Clock clock;
  Breaker breaker = up();
  const Breaker::Era before = breaker.began();
  breaker.failed(breaker.era(), true, clock.now);
  breaker.probed(Probe::ok, false, clock.after(1s));
  ASSERT_EQ(breaker.state(), Breaker::State::half_open);
  breaker.succeeded(before);
  EXPECT_EQ(breaker.state(), Breaker::State::half_open) << "an answer of the instance as it was";
  const Breaker::Era trial = breaker.began();
  breaker.abandoned(before);
  EXPECT_FALSE(breaker.admits()) << "the trial still runs";
  breaker.failed(before, true, clock.now);
  EXPECT_EQ(breaker.state(), Breaker::State::half_open);
  breaker.succeeded(trial);
  EXPECT_EQ(breaker.state(), Breaker::State::closed);
  breaker.reset();
  breaker.probed(Probe::ok, false, clock.now);
  breaker.failed(trial, true, clock.now);
  EXPECT_EQ(breaker.state(), Breaker::State::closed) << "that was another process";
}

TEST(Breaker, ABusyServerThatLetsAProbeWaitIsNotDown) {
  Breaker breaker = up();
  for (int i = 0; i < 10; ++i) breaker.probed(Probe::silent, true, Time{});
  EXPECT_TRUE(breaker.admits());
  for (int i = 0; i < 2; ++i) breaker.probed(Probe::silent, false, Time{});
  EXPECT_FALSE(breaker.admits());
}

TEST(Pressure, RisesWithinASecondAndFallsOnlyAfterCalm) {
  Clock clock;
  PressureRule rule;
  EXPECT_EQ(rule.update(0.5, clock.now), Pressure::normal);
  const Time began = clock.now;
  while (rule.update(0.95, clock.after(250ms)) != Pressure::critical) ASSERT_LT(clock.now - began, 1s);
  EXPECT_LE(clock.now - began, 1s);
  const Time fell = clock.now;
  while (rule.update(0.5, clock.after(250ms)) != Pressure::normal) ASSERT_LT(clock.now - fell, 60s);
  EXPECT_GE(clock.now - fell, 30s);
}

TEST(Pressure, OneSpikeIsNoTrend) {
  Clock clock;
  PressureRule rule;
  rule.update(0.99, clock.after(250ms));
  rule.update(0.5, clock.after(250ms));
  rule.update(0.99, clock.after(250ms));
  EXPECT_EQ(rule.update(0.5, clock.after(250ms)), Pressure::normal);
}

// Ten minutes of a signal that crosses both thresholds all the time.
TEST(Pressure, DoesNotFlap) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> noise(0, 0.04);
    const double level = 0.75 + 0.2 * (seed % 100) / 100;
    Clock clock;
    PressureRule rule;
    int changes = 0;
    for (Pressure last = Pressure::normal; clock.now < Time{} + 10min; clock.after(250ms)) {
      const Pressure now = rule.update(level + noise(random), clock.now);
      changes += now != last;
      last = now;
    }
    EXPECT_LE(changes, 3) << "seed " << seed;
  }
}

TEST(DraftRule, SwitchesOffBelowFortyPercentOfThirtyTwo) {
  Clock clock;
  DraftRule rule;
  EXPECT_EQ(rule.acceptance(), -1);
  for (int i = 0; i < 7; ++i) rule.saw(4, 1, clock.now);
  EXPECT_TRUE(rule.drafts(clock.now)) << "28 of 32: too few to judge by";
  rule.saw(4, 1, clock.now);
  EXPECT_FALSE(rule.drafts(clock.now));
  EXPECT_TRUE(rule.drafts(clock.after(30s))) << "tried again";
  for (int i = 0; i < 8; ++i) rule.saw(4, 3, clock.now);
  EXPECT_TRUE(rule.drafts(clock.now));
  EXPECT_DOUBLE_EQ(rule.acceptance(), 0.75);
}

TEST(DraftRule, ForgetsWhatLiesBeforeTheWindow) {
  DraftRule rule;
  for (int i = 0; i < 100; ++i) rule.saw(4, 4, Time{});
  for (int i = 0; i < 8; ++i) rule.saw(4, 1, Time{});
  EXPECT_FALSE(rule.drafts(Time{}));
}

TEST(DraftRule, AnswersThatWereUnderWaySayNothingNew) {
  Clock clock;
  DraftRule rule;
  rule.saw(32, 0, clock.now);
  rule.saw(32, 32, clock.after(1s));
  EXPECT_FALSE(rule.drafts(clock.now));
}

// Streams of steps of 40 ms, each with 4 drafted tokens of which so many are accepted.
DraftEstimate stream(int steps, int accepted) {
  Clock clock;
  DraftEstimate out;
  for (int i = 0; i < steps; ++i) {
    clock.after(40ms);
    for (int k = 0; k <= accepted; ++k) out.arrived(clock.after(200us));
  }
  return out;
}

TEST(DraftEstimate, SeesStepsInTheGaps) {
  for (int accepted = 0; accepted <= 4; ++accepted) {
    const auto counts = stream(40, accepted).counts(4);
    ASSERT_GT(counts.drafted, 0);
    EXPECT_NEAR(double(counts.accepted) / double(counts.drafted), accepted / 4.0, 0.05) << accepted;
  }
  EXPECT_EQ(stream(10, 0).counts(4).drafted, 0) << "too few to say";
}

TEST(DraftEstimate, RatesOfPairs) {
  PairedRates rates;
  rates.saw(true, 20);
  EXPECT_FALSE(rates.found_slower());
  rates.saw(false, 25);
  EXPECT_TRUE(rates.found_slower());
  EXPECT_FALSE(rates.found_slower()) << "a new trial is measured anew";
  rates.saw(true, 40);
  EXPECT_FALSE(rates.found_slower());
  EXPECT_NEAR(stream(40, 1).tokens_per_second(), 2 / 0.0404, 2);
}

TEST(Buckets, ArePowersOfTwoFrom512) {
  EXPECT_EQ(bucket_of(0), 512);
  EXPECT_EQ(bucket_of(512), 512);
  EXPECT_EQ(bucket_of(513), 1024);
  EXPECT_EQ(bucket_of(4000), 4096);
  EXPECT_EQ(bucket_of(int64_t{1} << 40), kLargestBucket);
}

TEST(Buckets, TheEstimateFollowsTheAnswers) {
  TokenEstimate estimate;
  EXPECT_EQ(estimate.tokens(4000), 1001);
  for (int i = 0; i < 50; ++i) estimate.learn(2000, 1000);
  EXPECT_NEAR(static_cast<double>(estimate.tokens(4000)), 2000, 20);
}

}  // namespace
}  // namespace martlet::gateway
