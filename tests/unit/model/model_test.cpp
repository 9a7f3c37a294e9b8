#include "model/model.h"

#include <gtest/gtest.h>

#include "engine/fake_backend.h"
#include "model/tiny.h"

namespace martlet {
namespace {

Result<std::unique_ptr<Model>> create(const Tiny& tiny, FakeBackend& backend) {
  const auto file = tiny.open();
  MARTLET_ASSIGN(const Hyperparameters h, read_hyperparameters(*file));
  return Model::create(file, h, backend, 4);
}

class Models : public testing::Test {
 protected:
  std::shared_ptr<FakeControls> controls_ = std::make_shared<FakeControls>();
  FakeBackend backend_{4, 4, controls_};

  void expect_bad_tensor(const Tiny& tiny, const std::string& name) {
    const auto model = create(tiny, backend_);
    ASSERT_FALSE(model) << "was taken";
    EXPECT_EQ(model.error().kind, ErrorKind::model);
    EXPECT_EQ(model.error().code, "bad_tensor");
    EXPECT_EQ(model.error().where, name);
  }
};

TEST_F(Models, TiedEmbeddingsAreUploadedOnce) {
  Tiny tiny;
  ASSERT_TRUE(create(tiny, backend_));
  const int32_t tied = backend_.weights_;
  tiny.tensors["output.weight"] = {32, 50};
  ASSERT_TRUE(create(tiny, backend_));
  EXPECT_EQ(backend_.weights_, 2 * tied + 1);
  EXPECT_EQ(backend_.biases_, 0);
}

TEST_F(Models, LlamaTakesBiasesWhereTheFileHasThem) {
  Tiny tiny;
  tiny.tensors["blk.0.ffn_down.bias"] = {32};
  ASSERT_TRUE(create(tiny, backend_));
  EXPECT_EQ(backend_.biases_, 1);
}

TEST_F(Models, LlamaTurnsNeighbours) {
  const auto model = create(Tiny{}, backend_);
  ASSERT_TRUE(model);
  (*model)->forward(backend_);
  ASSERT_EQ(backend_.attentions_.size(), 1u);
  EXPECT_TRUE(backend_.attentions_[0].rope_interleaved);
  EXPECT_FALSE(backend_.attentions_[0].q_norm.weight);
}

TEST_F(Models, Qwen3TurnsHalvesAndNormsQueriesAndKeys) {
  Tiny tiny;
  tiny.architecture = "qwen3";
  tiny.tensors["blk.0.attn_q_norm.weight"] = tiny.tensors["blk.0.attn_k_norm.weight"] = {8};
  const auto model = create(tiny, backend_);
  ASSERT_TRUE(model) << model.error().line();
  (*model)->forward(backend_);
  EXPECT_FALSE(backend_.attentions_[0].rope_interleaved);
  EXPECT_TRUE(backend_.attentions_[0].q_norm.weight);
}

TEST_F(Models, MissingTensorsAreNamed) {
  for (const auto& [name, shape] : Tiny{}.tensors) {
    Tiny tiny;
    tiny.tensors.erase(name);
    const auto model = create(tiny, backend_);
    ASSERT_FALSE(model) << name;
    EXPECT_EQ(model.error().code, "bad_tensor");
    EXPECT_EQ(model.error().where, name);
  }
  Tiny qwen2;
  qwen2.architecture = "qwen2";
  expect_bad_tensor(qwen2, "blk.0.attn_q.bias");
}

TEST_F(Models, WrongShapesAreNamed) {
  for (const auto& [name, shape] : Tiny{}.tensors) {
    if (name == "token_embd.weight") continue;  // its rows are the vocabulary, whatever they are
    Tiny tiny;
    tiny.tensors[name].back() += 32;
    expect_bad_tensor(tiny, name);
  }
  Tiny tiny;
  tiny.tensors["rope_freqs.weight"] = {5};
  expect_bad_tensor(tiny, "rope_freqs.weight");
}

TEST_F(Models, RopeFactorsMustBePositive) {
  Tiny tiny;
  tiny.tensors["rope_freqs.weight"] = {4};  // zeros
  expect_bad_tensor(tiny, "rope_freqs.weight");
}

TEST_F(Models, TensorsThatNobodyUsesAreRefused) {
  Tiny tiny;
  tiny.tensors["blk.0.ffn_gate_inp.weight"] = {32, 8};
  const auto model = create(tiny, backend_);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, "bad_tensor");
}

TEST(ModelSizes, TheEmbeddingTableIsReadOnlyWhereItIsTheHead) {
  Tiny tiny;
  const auto tied = tiny.open();
  tiny.tensors["output.weight"] = {32, 50};
  const auto apart = tiny.open();
  EXPECT_EQ(bytes_read_per_token(*tied), bytes_read_per_token(*apart));
  EXPECT_GT(mapped_bytes(*apart), mapped_bytes(*tied));
}

}  // namespace
}  // namespace martlet
