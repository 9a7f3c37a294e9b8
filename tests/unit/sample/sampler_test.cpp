#include "sample/sampler.h"

#include <gtest/gtest.h>

#include <limits>

#include "sample/parameters.h"

namespace martlet {
namespace {

const Adjust* find(const Choice& choice, Token token) {
  for (const Adjust& adjust : choice.adjust)
    if (adjust.token == token) return &adjust;
  return nullptr;
}

TEST(Sampler, NeutralParametersAdjustNothing) {
  Sampler sampler({}, 1);
  sampler.add_prompt(std::vector<Token>{1, 2, 3});
  sampler.add_output(4);
  EXPECT_TRUE(sampler.next().adjust.empty());
}

TEST(Sampler, RepetitionCoversPromptAndOutputOthersOnlyOutput) {
  SamplingParameters parameters;
  parameters.repetition_penalty = 1.5f;
  parameters.presence_penalty = 0.5f;
  parameters.frequency_penalty = 0.25f;
  parameters.logit_bias = {{7, 2.0f}, {1, -1.0f}};
  Sampler sampler(parameters, 1);
  sampler.add_prompt(std::vector<Token>{1, 2});
  sampler.add_output(2);
  sampler.add_output(2);
  sampler.add_output(3);
  const Choice choice = sampler.next();
  ASSERT_EQ(choice.adjust.size(), 4u);
  EXPECT_EQ(find(choice, 1)->divide, 1.5f);
  EXPECT_EQ(find(choice, 1)->subtract, 1.0f);
  EXPECT_EQ(find(choice, 2)->divide, 1.5f);
  EXPECT_EQ(find(choice, 2)->subtract, 1.0f);  // presence once, frequency twice
  EXPECT_EQ(find(choice, 3)->divide, 1.5f);
  EXPECT_EQ(find(choice, 3)->subtract, 0.75f);
  EXPECT_EQ(find(choice, 7)->divide, 1.0f);
  EXPECT_EQ(find(choice, 7)->subtract, -2.0f);
}

TEST(Sampler, DrawsCountAndSeedStays) {
  SamplingParameters parameters;
  Sampler fresh(parameters, 42);
  EXPECT_EQ(fresh.next().sampling.seed, 42u);
  parameters.seed = 9;
  Sampler seeded(parameters, 42);
  EXPECT_EQ(seeded.next().sampling.seed, 9u);
  EXPECT_EQ(seeded.next().sampling.draw, 0u);
  seeded.add_output(1);
  EXPECT_EQ(seeded.next().sampling.draw, 1u);
}

TEST(SamplingFaults, D3_EveryBadFieldIsNamed) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  const auto where = [](auto change) {
    SamplingParameters parameters;
    change(parameters);
    const Status status = validate(parameters, 100);
    return status ? std::string() : status.error().where;
  };
  for (const float bad : {-1.0f, kNan, kInf}) EXPECT_EQ(where([=](auto& p) { p.temperature = bad; }), "temperature");
  for (const float bad : {-0.1f, 1.1f, kNan}) {
    EXPECT_EQ(where([=](auto& p) { p.top_p = bad; }), "top_p");
    EXPECT_EQ(where([=](auto& p) { p.typical_p = bad; }), "typical_p");
  }
  EXPECT_EQ(where([](auto& p) { p.min_p = -0.1f; }), "min_p");
  EXPECT_EQ(where([](auto& p) { p.top_k = -1; }), "top_k");
  EXPECT_EQ(where([](auto& p) { p.repetition_penalty = 0; }), "repetition_penalty");
  EXPECT_EQ(where([&](auto& p) { p.presence_penalty = kNan; }), "presence_penalty");
  EXPECT_EQ(where([&](auto& p) { p.frequency_penalty = kInf; }), "frequency_penalty");
  EXPECT_EQ(where([](auto& p) { p.logit_bias = {{100, 0.0f}}; }), "logit_bias");
  EXPECT_EQ(where([](auto& p) { p.logit_bias = {{-1, 0.0f}}; }), "logit_bias");
  EXPECT_EQ(where([&](auto& p) { p.logit_bias = {{1, kNan}}; }), "logit_bias");
  EXPECT_EQ(where([&](auto& p) { p.logit_bias = {{1, -kInf}}; }), "");
  EXPECT_EQ(where([](auto&) {}), "");
}

}  // namespace
}  // namespace martlet
