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
}

TEST(CostTable, SmoothsAndFollows) {
  CostTable table;
  for (int i = 0; i < 100; ++i) table.observe(4, 100, 0.010);
  table.observe(4, 100, 10);
  EXPECT_LT(*table.seconds(4, 100), 0.013) << "one interrupted step";
  for (int i = 0; i < 60; ++i) table.observe(4, 100, 0.020);
  EXPECT_NEAR(*table.seconds(4, 100), 0.020, 1e-4) << "a machine that became slower";
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
