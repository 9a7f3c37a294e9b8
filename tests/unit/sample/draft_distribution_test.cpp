#include "sample/draft_distribution.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sample/sampler.h"

namespace martlet {
namespace {

const std::vector<TokenLogprob> kBest = {{9, std::log(0.5f)}, {2, std::log(0.25f)}, {5, std::log(0.125f)}, {-1, 0}};

Choice choice(Sampling sampling) {
  Choice c;
  c.sampling = sampling;
  return c;
}

TEST(DraftDistribution, IsNormalisedAndAscends) {
  const auto q = draft_distribution(kBest, choice({}));
  ASSERT_EQ(q.size(), 3u);
  EXPECT_EQ(q[0].token, 2);
  EXPECT_EQ(q[2].token, 9);
  EXPECT_NEAR(q[2].probability, 0.5 / 0.875, 1e-6);
  EXPECT_NEAR(q[0].probability + q[1].probability + q[2].probability, 1, 1e-6);
}

TEST(DraftDistribution, FollowsTemperatureAndFilters) {
  EXPECT_NEAR(draft_distribution(kBest, choice({.temperature = 0.5f}))[2].probability, 0.25 / 0.328125, 1e-5);
  EXPECT_EQ(draft_distribution(kBest, choice({.top_k = 2})).size(), 2u);
  EXPECT_EQ(draft_distribution(kBest, choice({.top_p = 0.5f})).size(), 1u);
  EXPECT_EQ(draft_distribution(kBest, choice({.min_p = 0.4f})).size(), 2u);
}

TEST(DraftDistribution, FollowsAdjustments) {
  Choice c = choice({});
  const std::vector<Adjust> adjust = {
      {9, 1, std::numeric_limits<float>::infinity()}, {5, 1, -std::log(2.0f)}, {77, 2, 1}};
  c.adjust = adjust;
  const auto q = draft_distribution(kBest, c);
  ASSERT_EQ(q.size(), 2u);
  EXPECT_NEAR(q[0].probability, 0.5, 1e-6);
  EXPECT_EQ(q[1].token, 5);
}

TEST(DraftDistribution, IsEmptyWhereNothingMayBeDrawn) {
  EXPECT_TRUE(draft_distribution({}, choice({})).empty());
  Choice c = choice({});
  const std::vector<Adjust> ban = {{2, 1, std::numeric_limits<float>::infinity()}};
  c.adjust = ban;
  EXPECT_TRUE(draft_distribution(std::span(kBest).subspan(1, 1), c).empty());
}

TEST(DraftDistribution, DrawsByCumulativeProbability) {
  const std::vector<TokenProbability> q = {{2, 0.25f}, {5, 0.25f}, {9, 0.5f}};
  EXPECT_EQ(draw(q, 0), 2);
  EXPECT_EQ(draw(q, 0.3), 5);
  EXPECT_EQ(draw(q, 0.999999999), 9);
}

// What after() promises: the very choice that the sampler gives once the drafts have been added.
TEST(Sampler, AfterDraftsIsBitForBitWhatItWillBe) {
  SamplingParameters parameters;
  parameters.repetition_penalty = 1.3f;
  parameters.presence_penalty = 0.7f;
  parameters.frequency_penalty = 0.1f;
  parameters.logit_bias = {{4, 1.5f}};
  Sampler sampler(parameters, 1);
  sampler.add_prompt(std::vector<Token>{1, 2, 3});
  sampler.add_output(2);
  const std::vector<Token> drafts = {7, 2, 4, 7, 8, 7};
  std::vector<Adjust> storage;
  for (size_t n = 0; n <= drafts.size(); ++n) {
    Sampler later = sampler;
    for (size_t i = 0; i < n; ++i) later.add_output(drafts[i]);
    const Choice expected = later.next(), found = sampler.after(std::span(drafts).first(n), storage);
    EXPECT_EQ(found.sampling.draw, expected.sampling.draw);
    EXPECT_EQ(found.sampling.seed, expected.sampling.seed);
    ASSERT_EQ(found.adjust.size(), expected.adjust.size());
    for (size_t i = 0; i < found.adjust.size(); ++i) {
      EXPECT_EQ(found.adjust[i].token, expected.adjust[i].token);
      EXPECT_EQ(found.adjust[i].divide, expected.adjust[i].divide);
      EXPECT_EQ(found.adjust[i].subtract, expected.adjust[i].subtract);
    }
  }
}

}  // namespace
}  // namespace martlet
