// The same tokens and the same logits, step for step, alone and under load.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "engine/harness.h"
#include "file/model_file.h"
#include "model/model.h"

namespace martlet {
namespace {

constexpr int32_t kPrompts = 200, kTokens = 128, kContext = 256, kLeastBatch = 8;

uint64_t hash_of(std::span<const float> values) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, a value at a time
  for (const float value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    hash = (hash ^ bits) * 0x100000001b3u;
  }
  return hash;
}

// What the engine's thread notes; read when it has ended.
struct Notes {
  std::vector<uint64_t> logits;  // of every output row
  int64_t crowded = 0;           // of them, those in steps of at least kLeastBatch
};

class HashingModel final : public Model {
 public:
  HashingModel(std::unique_ptr<Model> model, Notes& notes) : model_(std::move(model)), notes_(notes) {}
  Outputs forward(Backend& backend) const override {
    Outputs outputs = model_->forward(backend);
    const auto columns = static_cast<size_t>(outputs.logits.columns);
    values_.resize(static_cast<size_t>(outputs.logits.rows) * columns);
    backend.read(outputs.logits, values_);
    for (size_t at = 0; at < values_.size(); at += columns)
      notes_.logits.push_back(hash_of(std::span(values_).subspan(at, columns)));
    if (outputs.logits.rows >= kLeastBatch) notes_.crowded += outputs.logits.rows;
    return outputs;
  }

 private:
  std::unique_ptr<Model> model_;
  Notes& notes_;
  mutable std::vector<float> values_;
};

struct Answers {
  std::vector<std::vector<Token>> tokens;
  Notes notes;
};

Answers serve(const std::string& path, const std::vector<std::vector<Token>>& prompts, int32_t sequences,
              int32_t pages) {
  Answers answers;
  {
    const auto file = ModelFile::open(path).value();
    const Hyperparameters h = read_hyperparameters(*file).value();
    EngineThread::Parts parts;
    parts.backend = make_cpu_backend({.threads = 2, .max_rows = 128}).value();
    parts.plan.context = kContext;
    parts.scheduler = {.page_tokens = parts.backend->page_tokens(),
                       .pages = pages,
                       .context = kContext,
                       .max_sequences = sequences,
                       .prefill_chunk = 64,
                       .max_rows = 64 + sequences};
    parts.max_queue = kPrompts;
    parts.vocabulary = h.vocabulary;
    parts.open_model = [&](Backend& backend) -> Result<std::unique_ptr<Model>> {
      MARTLET_ASSIGN(std::unique_ptr<Model> model, Model::create(file, h, backend, pages));
      return std::unique_ptr<Model>(std::make_unique<HashingModel>(std::move(model), answers.notes));
    };
    parts.weights_intact = [] { return true; };
    const std::unique_ptr<Engine> engine = EngineThread::start(std::move(parts)).value();
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (const std::vector<Token>& prompt : prompts) {
      sinks.push_back(std::make_shared<RecordingSink>());
      EXPECT_TRUE(engine->submit(greedy(prompt, kTokens), sinks.back()));
    }
    for (const auto& sink : sinks) {
      EXPECT_EQ(sink->wait(std::chrono::seconds(250)).reason, FinishReason::length);
      answers.tokens.push_back(sink->output());
    }
  }
  std::sort(answers.notes.logits.begin(), answers.notes.logits.end());
  return answers;
}

class LoadIdentity : public testing::TestWithParam<const char*> {};

TEST_P(LoadIdentity, TokensAndLogitsAreTheSameAloneAndUnderLoad) {
  const std::string path = std::string("tests/golden/models/") + GetParam() + ".gguf";
  std::mt19937 random(1);
  std::vector<std::vector<Token>> prompts;
  for (int32_t i = 0; i < kPrompts; ++i) {
    std::vector<Token> prompt = random_tokens(random, 1 + i % 61);
    for (Token& token : prompt) token %= 64;
    if (i % 5 == 4)
      std::copy_n(prompts.back().begin(), std::min(prompt.size(), prompts.back().size()) / 2, prompt.begin());
    prompts.push_back(std::move(prompt));
  }
  const Answers alone = serve(path, prompts, 1, 8), loaded = serve(path, prompts, 32, 100);
  for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(loaded.tokens[i], alone.tokens[i]) << "prompt " << i;
  EXPECT_EQ(alone.notes.logits.size(), size_t{kPrompts} * kTokens);
  EXPECT_EQ(loaded.notes.logits, alone.notes.logits) << "of every step of every answer, in any order";
  EXPECT_EQ(alone.notes.crowded, 0);
  EXPECT_GE(loaded.notes.crowded, kPrompts * kTokens * 9 / 10);
}

INSTANTIATE_TEST_SUITE_P(BitIdentity, LoadIdentity, testing::Values("llama", "qwen3"));

}  // namespace
}  // namespace martlet
