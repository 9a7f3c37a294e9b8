#include "model/hyperparameters.h"

#include <gtest/gtest.h>

#include "model/tiny.h"

namespace martlet {
namespace {

Error refusal(const Tiny& tiny) {
  const auto file = tiny.open();
  const Result<Hyperparameters> h = read_hyperparameters(*file);
  EXPECT_FALSE(h) << "was taken";
  return h ? Error{} : h.error();
}

Hyperparameters read(const Tiny& tiny) {
  const auto file = tiny.open();
  const Result<Hyperparameters> h = read_hyperparameters(*file);
  EXPECT_TRUE(h) << (h ? "" : h.error().line());
  return h ? *h : Hyperparameters{};
}

TEST(Hyperparameters, DefaultsFollowFromTheOthers) {
  Tiny tiny;
  tiny.integers.erase("attention.head_count_kv");
  const Hyperparameters h = read(tiny);
  EXPECT_EQ(h.kv_heads, 4);
  EXPECT_EQ(h.key_size, 8);
  EXPECT_EQ(h.value_size, 8);
  EXPECT_EQ(h.rotated, 8);
  EXPECT_EQ(h.rope_base, 10000);
  EXPECT_EQ(h.vocabulary, 50);
  EXPECT_EQ(h.rope_scaling.kind, RopeScaling::Kind::none);
}

TEST(Hyperparameters, OneValueALayerCountsAsOneWhenAllAreEqual) {
  Tiny tiny;
  tiny.integers.erase("attention.head_count");
  tiny.arrays["attention.head_count"] = {4, 4, 4};
  EXPECT_EQ(read(tiny).heads, 4);
  tiny.arrays["attention.head_count"] = {4, 8, 4};
  EXPECT_EQ(refusal(tiny).where, "llama.attention.head_count");
}

struct BadKey {
  const char* key;
  std::function<void(Tiny&)> change;
};

class BadHparam : public testing::TestWithParam<BadKey> {};

TEST_P(BadHparam, A10_IsRefusedWithItsKey) {
  Tiny tiny;
  GetParam().change(tiny);
  const Error error = refusal(tiny);
  EXPECT_EQ(error.kind, ErrorKind::model);
  EXPECT_EQ(error.code, "bad_hparam");
  EXPECT_EQ(error.where, std::string("llama.") + GetParam().key);
}

const auto integer = [](const char* key, uint32_t value) {
  return BadKey{key, [=](Tiny& t) { t.integers[key] = value; }};
};
const auto number = [](const char* key, float value) { return BadKey{key, [=](Tiny& t) { t.numbers[key] = value; }}; };

INSTANTIATE_TEST_SUITE_P(
    ModelFaults, BadHparam,
    testing::Values(
        integer("attention.head_count", 0), integer("attention.head_count_kv", 3), integer("embedding_length", 34),
        integer("embedding_length", 0), integer("block_count", 0), integer("block_count", 4000000000u),
        integer("feed_forward_length", 0), integer("context_length", 0), integer("attention.key_length", 0),
        integer("attention.value_length", 1 << 20), integer("rope.dimension_count", 7),
        integer("rope.dimension_count", 10), integer("expert_count", 8), integer("attention.sliding_window", 16),
        number("attention.layer_norm_rms_epsilon", 0), number("rope.freq_base", 0),
        number("attention.layer_norm_rms_epsilon", std::numeric_limits<float>::quiet_NaN()),
        number("rope.freq_base", std::numeric_limits<float>::infinity()), number("final_logit_softcapping", 30),
        BadKey{"block_count",
               [](Tiny& t) {
                 t.integers.erase("block_count");
                 t.strings["block_count"] = "2";
               }},
        BadKey{"context_length",
               [](Tiny& t) {
                 t.integers.erase("context_length");
                 t.wide_integers["context_length"] = uint64_t{1} << 32;
               }},
        BadKey{"context_length", [](Tiny& t) { t.integers.erase("context_length"); }},
        BadKey{"rope.scaling.type", [](Tiny& t) { t.strings["rope.scaling.type"] = "longrope"; }},
        BadKey{"rope.scaling.factor", [](Tiny& t) { t.strings["rope.scaling.type"] = "yarn"; }}));

TEST(ModelFaults, UnknownArchitectureIsNamedAndThoseThatWorkAreListed) {
  Tiny tiny;
  tiny.architecture = "mamba";
  Error error = refusal(tiny);
  EXPECT_EQ(error.code, "unsupported_architecture");
  EXPECT_EQ(error.where, "mamba");
  EXPECT_NE(error.text.find("llama, qwen2, qwen3"), std::string::npos);
  tiny.architecture = "Rm -rf\n";  // not a name: is not repeated
  error = refusal(tiny);
  EXPECT_EQ(error.where, "general.architecture");
}

}  // namespace
}  // namespace martlet
