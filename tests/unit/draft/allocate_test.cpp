#include "draft/allocate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace martlet {
namespace {

DraftCandidate candidate(std::initializer_list<double> chances, int32_t last = 0) {
  DraftCandidate c{{}, 0, last};
  double survival = 1;
  for (const double chance : chances) c.survival.push_back(survival *= chance);
  return c;
}

// Flat to eight rows, then in proportion: decode on a CPU.
double flat_then_linear(int32_t rows) {
  return rows <= 8 ? 1 : rows / 8.0;
}

Allocation allocate(std::vector<DraftCandidate> candidates, double draft_price) {
  const auto decoding = static_cast<int32_t>(candidates.size());
  const auto verify = [&](int32_t drafts) { return flat_then_linear(decoding + drafts); };
  const auto draft = [&](int32_t sequences) { return draft_price * flat_then_linear(sequences); };
  return allocate_drafts(candidates, {decoding, verify, draft});
}

// The formula, for one sequence, over all lengths.
int32_t best_length(const DraftCandidate& c, double draft_price) {
  int32_t best = 0;
  double best_rate = 1, tokens = 1;
  for (size_t k = 1; k <= c.survival.size(); ++k) {
    tokens += c.survival[k - 1];
    const double rate = tokens / (flat_then_linear(1 + static_cast<int32_t>(k)) + static_cast<double>(k) * draft_price);
    if (rate > best_rate) best = static_cast<int32_t>(k), best_rate = rate;
  }
  return best;
}

TEST(AllocateDrafts, OneSequenceGetsTheLengthOfTheFormula) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> chance(0, 1);
  for (int i = 0; i < 500; ++i) {
    DraftCandidate c;
    double survival = 1;
    for (int j = 0; j < 8; ++j) c.survival.push_back(survival *= chance(random));
    const double price = 0.3 * chance(random);
    const int32_t best = best_length(c, price);
    const Allocation allocation = allocate({c}, price);
    // Hysteresis may keep none where the best is hardly better.
    if (allocation.lengths[0] != best) {
      EXPECT_EQ(allocation.lengths[0], 0);
      c.last = best;
      EXPECT_EQ(allocate({c}, price).lengths[0], best);
    }
  }
}

TEST(AllocateDrafts, AcceptanceAloneDecidesNothing) {
  // A free draft pays at 5 %; a model at a tenth of the cost does not at 8 %, and does at 20 %.
  EXPECT_GE(allocate({candidate({0.05, 0.05})}, 0).lengths[0], 1);
  EXPECT_EQ(allocate({candidate({0.08, 0.08})}, 0.1).lengths[0], 0);
  EXPECT_GE(allocate({candidate({0.2, 0.2})}, 0.1).lengths[0], 1);
  // In a full batch even 80 % loses.
  EXPECT_EQ(allocate(std::vector<DraftCandidate>(32, candidate({0.8, 0.8, 0.8})), 0.1).lengths[0], 0);
}

TEST(AllocateDrafts, TheLikeliestSequenceIsServedFirst) {
  std::vector<DraftCandidate> candidates(4, candidate({0.1, 0.1, 0.1}));
  candidates[2] = candidate({0.95, 0.95, 0.95, 0.95});
  const Allocation allocation = allocate(candidates, 0.02);
  EXPECT_EQ(allocation.lengths[2], 4);
  EXPECT_EQ(allocation.lengths[0], 0);
}

TEST(AllocateDrafts, KeepsTheLastLengthWhereAnotherIsHardlyBetter) {
  // Per draft 0.3 tokens more for a price of 0.299: length 1 is better than none, but by nothing to speak of.
  EXPECT_EQ(allocate({candidate({0.3}, 0)}, 0.299).lengths[0], 0);
  EXPECT_EQ(allocate({candidate({0.3}, 1)}, 0.299).lengths[0], 1);
  EXPECT_EQ(allocate({candidate({0.299}, 1)}, 0.3).lengths[0], 1);
  EXPECT_EQ(allocate({candidate({0.25}, 1)}, 0.3).lengths[0], 0);
}

TEST(AllocateDrafts, TheCostOfCatchingUpCounts) {
  DraftCandidate c = candidate({0.5, 0.5});
  EXPECT_GT(allocate({c}, 0.1).lengths[0], 0);
  c.entry = 1;
  EXPECT_EQ(allocate({c}, 0.1).lengths[0], 0);
}

// A step that yields more tokens bears more of it: fewer steps are left to share it.
TEST(AllocateDrafts, TheCostOfCatchingUpIsBorneByTokens) {
  DraftCandidate c = candidate({0.5});
  c.entry = 0.25;
  EXPECT_NEAR(allocate({c}, 0.1).rate, 1.5 / (1 + 0.1 + 0.25 * 1.5), 1e-12);
  c.entry = 0.3;
  EXPECT_EQ(allocate({c}, 0.1).lengths[0], 0);
}

}  // namespace
}  // namespace martlet
