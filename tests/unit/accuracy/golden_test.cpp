// Tiny models of every architecture and RoPE scaling against logits from tests/golden/models/make.py.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/isa/level.h"
#include "file/model_file.h"
#include "model/model.h"

namespace martlet {
namespace {

constexpr int32_t kVocabulary = 64, kPrompt = 40;
// The logits spread over about 4. The largest error seen is 0.0007: here and there a key is rounded to the other f16.
constexpr float kLargestError = 0.002f;

std::vector<float> read_floats(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<float> values(kPrompt + 2 * kPrompt * kVocabulary);
  in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
  EXPECT_TRUE(in) << path;
  return values;
}

// Logits of every row of one prompt, computed in chunks of `chunk` rows.
std::vector<float> compute(const std::string& path, Backend& backend, std::span<const Token> tokens, int32_t chunk,
                           CacheType cache) {
  const auto file = ModelFile::open(path);
  EXPECT_TRUE(file) << file.error().line();
  const auto h = read_hyperparameters(**file);
  EXPECT_TRUE(h) << h.error().line();
  const int32_t pages = (kPrompt + backend.page_tokens() - 1) / backend.page_tokens();
  const auto model = Model::create(*file, *h, backend, pages, cache);
  EXPECT_TRUE(model) << model.error().line();
  std::vector<Page> table(static_cast<size_t>(pages));
  std::iota(table.rbegin(), table.rend(), 0);
  const std::vector<int32_t> page_starts = {0, pages};
  const PageTable group{page_starts, table};
  std::vector<float> logits;
  for (int32_t first = 0; first < kPrompt; first += chunk) {
    const int32_t rows = std::min(chunk, kPrompt - first);
    std::vector<int32_t> positions(static_cast<size_t>(rows)), outputs(static_cast<size_t>(rows));
    std::iota(positions.begin(), positions.end(), first);
    std::iota(outputs.begin(), outputs.end(), 0);
    const std::vector<int32_t> starts = {0, rows}, lengths = {first + rows};
    const std::vector<Choice> choices(static_cast<size_t>(rows));
    const Batch batch{.tokens = tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(rows)),
                      .positions = positions,
                      .starts = starts,
                      .context_lengths = lengths,
                      .groups = {&group, 1},
                      .copies = {},
                      .outputs = outputs};
    std::vector<Chosen> chosen(static_cast<size_t>(rows));
    const Ticket ticket = backend.submit((*model)->id(), batch, choices, [&] { return (*model)->forward(backend); });
    EXPECT_TRUE(backend.wait(ticket, chosen, {}));
    logits.resize(logits.size() + static_cast<size_t>(rows) * kVocabulary);
    backend.read(backend.outputs(ticket).logits, std::span(logits).last(static_cast<size_t>(rows) * kVocabulary));
  }
  backend.close((*model)->id());
  return logits;
}

class GoldenModel : public testing::TestWithParam<const char*> {
 protected:
  void compare(const CpuOptions& options, CacheType cache) {
    const std::string base = std::string("tests/golden/models/") + GetParam();
    const std::vector<float> golden = read_floats(base + ".f32");
    const std::vector<Token> tokens(golden.begin(), golden.begin() + kPrompt);
    const std::span<const float> expected =
        std::span(golden).subspan(cache == CacheType::f32 ? kPrompt : kPrompt + kPrompt * kVocabulary);
    const auto backend = make_cpu_backend(options);
    ASSERT_TRUE(backend) << backend.error().line();
    std::vector<float> whole;
    for (const int32_t chunk : {kPrompt, 7}) {
      const std::vector<float> logits = compute(base + ".gguf", **backend, tokens, chunk, cache);
      float worst = 0;
      for (size_t i = 0; i < logits.size(); ++i) worst = std::max(worst, std::abs(logits[i] - expected[i]));
      EXPECT_LE(worst, kLargestError) << "chunk " << chunk;
      if (whole.empty()) whole = logits;
      EXPECT_EQ(logits, whole) << "chunks show in the result";
    }
  }
};

TEST_P(GoldenModel, ScalarLevelWithF32Activations) {
  compare({.threads = 1, .level = cpu::levels().front(), .f32_activations = true}, CacheType::f32);
}

// The weights are f16, which no level rounds activations for.
TEST_P(GoldenModel, BestLevel) {
  compare({.threads = 2}, CacheType::f16);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenModel,
                         testing::Values("llama", "llama-biases", "llama-factors", "llama-linear", "qwen2",
                                         "qwen2-yarn", "qwen3", "qwen3-partial"));

}  // namespace
}  // namespace martlet
