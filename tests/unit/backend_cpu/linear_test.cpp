#include <gtest/gtest.h>

#include "linear_checks.h"

namespace martlet::cpu {
namespace {

class LinearFormat : public testing::TestWithParam<Format> {
 protected:
  Format format() const { return GetParam(); }
  // Columns: one block, or for formats without blocks a count that no vector divides.
  int64_t columns() const { return block_columns(format()) == 1 ? 37 : block_columns(format()); }
};

TEST_P(LinearFormat, AnyNumberOfRowsHasTheSameBits) {
  for (int64_t rows : kLinearCheckRows) {
    LinearCase c{format(),      37,           rows % 2 ? columns() : 3 * columns(), rows, Values::ordinary,
                 rows % 3 == 0, rows % 2 == 0};
    EXPECT_EQ(check_levels_agree(c), "");
  }
}

TEST_P(LinearFormat, AnyNumberOfOutputsIsRightAndReadsNothingBehind) {
  for (int64_t outputs : kLinearCheckOutputs) {
    LinearCase c{format(),         outputs,          2 * columns(),    outputs % 2 ? 2 : 10,
                 Values::ordinary, outputs % 3 == 0, outputs % 2 == 0, 7};
    EXPECT_EQ(check_levels_agree(c), "");
    EXPECT_EQ(check_against_reference(c), "");
  }
}

// On both sides of the length up to which a level may read one row after the other.
TEST_P(LinearFormat, LongRows) {
  for (int64_t blocks : {12, 13, 35}) {
    LinearCase c{format(), 11, blocks * columns(), 2, Values::ordinary, false, false, 5};
    EXPECT_EQ(check_levels_agree(c), "");
    EXPECT_EQ(check_against_reference(c), "");
  }
}

TEST_P(LinearFormat, ExtremeValues) {
  for (Values values : {Values::extreme, Values::denormal, Values::zero}) {
    LinearCase c{format(), 41, 4 * columns(), 12, values, false, false, 11};
    EXPECT_EQ(check_levels_agree(c), "");
    EXPECT_EQ(check_against_reference(c), "");
  }
}

TEST_P(LinearFormat, NotFiniteActivationsMakeTheirRowNotFinite) {
  EXPECT_EQ(check_not_finite(format()), "");
}

INSTANTIATE_TEST_SUITE_P(AllFormats, LinearFormat, testing::ValuesIn(computing_formats()),
                         [](const auto& param) { return std::string(martlet::info(param.param).name); });

}  // namespace
}  // namespace martlet::cpu
