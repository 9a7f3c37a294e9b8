#include "hub/choose.h"

#include <gtest/gtest.h>

namespace martlet {
namespace {

using Names = std::vector<std::string>;

TEST(ChooseModel, TakesTheOnlyOne) {
  const auto models = list_models(Names{"README.md", "a.gguf", "mmproj-a.gguf"});
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(choose_model(models, "")->front(), "a.gguf");
}

TEST(ChooseModel, PrefersQ4KM) {
  const auto models = list_models(Names{"m.Q8_0.gguf", "m.Q4_K_M.gguf", "m.Q4_K_S.gguf"});
  EXPECT_EQ(choose_model(models, "")->front(), "m.Q4_K_M.gguf");
  EXPECT_EQ(choose_model(models, "Q4_K").error().code, "no_such_file") << "a word, not a prefix";
  EXPECT_EQ(choose_model(models, "q4_k_s")->front(), "m.Q4_K_S.gguf");
}

TEST(ChooseModel, AsksWhenSeveralFit) {
  const auto models = list_models(Names{"a-Q8_0.gguf", "b-Q8_0.gguf"});
  EXPECT_EQ(choose_model(models, "").error().code, "ambiguous_file");
  EXPECT_EQ(exit_code(choose_model(models, "Q8_0").error().kind), 2);
  EXPECT_EQ(choose_model({}, "").error().code, "no_such_file");
}

TEST(ChooseModel, KeepsSplitModelsTogetherAndInOrder) {
  const auto models = list_models(Names{"x-00002-of-00002.gguf", "x-00001-of-00002.gguf", "y-00001-of-00003.gguf"});
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models[0], (ModelFiles{"x-00001-of-00002.gguf", "x-00002-of-00002.gguf"}));
  EXPECT_EQ(*choose_model(models, "x-00002-of-00002.gguf"), models[0]);
}

}  // namespace
}  // namespace martlet
