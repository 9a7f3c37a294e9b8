#include "backend/cost_table.h"

#include <gtest/gtest.h>

namespace martlet {
namespace {

TEST(CostTable, KnowsNothingBeforeTheFirstStep) {
  EXPECT_FALSE(CostTable().seconds(1, 100));
}

TEST(CostTable, MeasuredBetweenAndBeyond) {
  CostTable table;
  table.observe(1, 100, 0.010);
  table.observe(32, 100, 0.072);
  EXPECT_DOUBLE_EQ(*table.seconds(1, 100), 0.010);
  EXPECT_DOUBLE_EQ(*table.seconds(32, 100), 0.072);
  EXPECT_NEAR(*table.seconds(16, 100), 0.040, 1e-12) << "a straight line between what was measured";
  EXPECT_NEAR(*table.seconds(64, 100), 0.144, 1e-12) << "beyond it, in proportion";
  CostTable many;
  many.observe(100, 100, 0.2);
  EXPECT_DOUBLE_EQ(*many.seconds(1, 100), 0.2) << "below it, no promise of less";
}

TEST(CostTable, SaysWhatItCanOnlyGuess) {
  CostTable table;
  EXPECT_FALSE(table.knows(100));
  table.observe(64, 100, 0.1);
  EXPECT_FALSE(table.knows(63));
  EXPECT_TRUE(table.knows(64) && table.knows(500));
  table.observe(4, 3000, 0.1);
  EXPECT_FALSE(table.knows(3));
  EXPECT_TRUE(table.knows(4));
  CostTable few;
  few.observe(1, 100, 0.01);
  EXPECT_TRUE(few.knows(4));
  EXPECT_FALSE(few.knows(50)) << "fifty rows together take nothing like fifty steps of one";
}

TEST(CostTable, SmoothsAndFollows) {
  CostTable table;
  for (int i = 0; i < 100; ++i) table.observe(4, 100, 0.010);
  table.observe(4, 100, 10);
  EXPECT_LT(*table.seconds(4, 100), 0.013) << "one interrupted step";
  for (int i = 0; i < 60; ++i) table.observe(4, 100, 0.020);
  EXPECT_NEAR(*table.seconds(4, 100), 0.020, 1e-4) << "a machine that became slower";
}

TEST(CostTable, AFirstStepCountsForNoMoreThanItsNeighboursAllow) {
  CostTable table;
  table.observe(16, 100, 0.016);
  table.observe(17, 100, 1);
  EXPECT_DOUBLE_EQ(*table.seconds(17, 100), 0.017) << "rows cost no more than as many steps of fewer";
  table.observe(300, 100, 0.2);
  table.observe(256, 100, 1);
  EXPECT_DOUBLE_EQ(*table.seconds(256, 100), 0.2) << "nor more than a step of more rows";
  table.observe(17, 8000, 0.1);
  EXPECT_DOUBLE_EQ(*table.seconds(17, 8000), 0.1) << "other contexts allow nothing";
  table.observe(20, 100, 0.018);
  EXPECT_DOUBLE_EQ(*table.seconds(20, 100), 0.018) << "what costs less is taken as it is";
}

TEST(CostTable, TheLeastOfTheFirstFourCounts) {
  CostTable table;
  for (const double seconds : {1.0, 1.0, 0.01}) table.observe(4, 100, seconds);
  EXPECT_DOUBLE_EQ(*table.seconds(4, 100), 0.01);
  table.observe(4, 100, 0.02);
  EXPECT_DOUBLE_EQ(*table.seconds(4, 100), 0.01);
  table.observe(4, 100, 0.02);
  EXPECT_DOUBLE_EQ(*table.seconds(4, 100), 0.012) << "from then on it is smoothed";
}

TEST(CostTable, AFewStepsAreDoubtedUntilThereAreMore) {
  CostTable table;
  const auto others = [&] {
    for (int i = 0; i < 32; ++i) table.observe(1, 100, 0.010), table.observe(9, 100, 0.018);
  };
  others();
  for (int seen = 1; seen <= 3; ++seen) {
    table.observe(5, 100, 0.017);
    for (int spell = 1; spell <= seen; ++spell) {
      EXPECT_DOUBLE_EQ(*table.seconds(5, 100), 0.017) << seen << " " << spell;
      others();
    }
    EXPECT_DOUBLE_EQ(*table.seconds(5, 100), 0.014) << "as if it had never been seen, " << seen;
    EXPECT_DOUBLE_EQ(*table.seconds(3, 100), 0.012);
  }
}

TEST(CostTable, WhatWasSeenOftenIsDoubtedAfterAThousandSteps) {
  CostTable table;
  table.observe(1, 100, 0.010);
  for (int i = 0; i < 1000; ++i) table.observe(5, 100, 0.017);
  const auto others = [&](int steps) {
    for (int i = 0; i < steps / 2; ++i) table.observe(1, 100, 0.010), table.observe(9, 100, 0.018);
  };
  others(1000);
  EXPECT_DOUBLE_EQ(*table.seconds(5, 100), 0.017);
  others(24);
  EXPECT_DOUBLE_EQ(*table.seconds(5, 100), 0.014);
}

// The one number of rows that no other stands below.
TEST(CostTable, ASlowSmallestStepIsDoubtedToo) {
  CostTable table;
  table.observe(64, 100, 0.074);
  table.observe(1, 100, 0.05);
  for (int i = 0; i < 63; ++i) table.observe(4, 100, 0.014);
  EXPECT_DOUBLE_EQ(*table.seconds(1, 100), 0.05);
  table.observe(4, 100, 0.014);
  EXPECT_NEAR(*table.seconds(1, 100), 0.011, 1e-12) << "as the straight line goes on";
  table.observe(1, 100, 0.012);
  EXPECT_DOUBLE_EQ(*table.seconds(1, 100), 0.012);
}

// Nor the one that no other stands above, and where there are but two.
TEST(CostTable, ASlowLargestStepIsDoubtedToo) {
  CostTable table;
  for (int i = 0; i < 4; ++i) table.observe(1, 100, 0.010);
  for (int i = 0; i < 100; ++i) table.observe(5, 100, 0.100);
  EXPECT_NEAR(*table.seconds(5, 100), 0.1, 1e-6);
  for (int i = 0; i < 1024; ++i) table.observe(1, 100, 0.010);
  EXPECT_DOUBLE_EQ(*table.seconds(5, 100), 0.05);
  for (int i = 0; i < 1024; ++i) table.observe(5, 100, 0.009);
  EXPECT_NEAR(*table.seconds(1, 100), 0.009, 1e-4);
}

TEST(CostTable, ALineSaysWhatTheTableSays) {
  CostTable table;
  EXPECT_FALSE(table.line(100).seconds(1));
  for (const int32_t rows : {3, 5, 9, 40, 300}) table.observe(rows, 100, 0.01 + 0.001 * rows);
  const CostTable::Line line = table.line(100);
  for (const int32_t rows : {1, 3, 4, 9, 10, 300, 5000})
    EXPECT_EQ(line.seconds(rows), table.seconds(rows, 100)) << rows;
  for (int i = 0; i < 10; ++i) table.observe(4, 100, 1);
  EXPECT_DOUBLE_EQ(*line.seconds(4), 0.014) << "a copy";
}

TEST(CostTable, DoubtMakesNothingDearer) {
  CostTable table;
  table.observe(1, 100, 0.010);
  table.observe(5, 100, 0.011);
  for (int i = 0; i < 100; ++i) table.observe(9, 100, 0.018);
  EXPECT_DOUBLE_EQ(*table.seconds(1, 100), 0.010);
  EXPECT_DOUBLE_EQ(*table.seconds(5, 100), 0.011);
}

TEST(CostTable, ContextsAreApartAndTheNearestStandsIn) {
  CostTable table;
  table.observe(8, 200, 0.010);
  table.observe(8, 8000, 0.030);
  EXPECT_DOUBLE_EQ(*table.seconds(8, 100), 0.010);
  EXPECT_DOUBLE_EQ(*table.seconds(8, 7000), 0.030);
  EXPECT_DOUBLE_EQ(*table.seconds(8, 400), 0.010);
  EXPECT_DOUBLE_EQ(*table.seconds(8, 100000), 0.030);
}

TEST(CostTable, AnyNumberHasAPlace) {
  CostTable table;
  for (const int32_t rows : {0, 1, 16, 17, 4095, 1 << 30})
    for (const int32_t context : {0, 1, 256, 257, 1 << 30}) table.observe(rows, context, 0.01);
  EXPECT_DOUBLE_EQ(*table.seconds(16, 1), 0.01);
}

}  // namespace
}  // namespace martlet
