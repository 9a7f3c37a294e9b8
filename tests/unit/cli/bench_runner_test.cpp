#include "cli/bench_runner.h"

#include <gtest/gtest.h>

#include "engine/fake_backend.h"
#include "file/model_file.h"

namespace martlet::cli {
namespace {

TEST(BenchRunner, StepsOfPromptsAreNoLargerThanTheChunk) {
  const auto file = ModelFile::open("tests/golden/models/llama.gguf");
  ASSERT_TRUE(file) << file.error().line();
  const auto controls = std::make_shared<FakeControls>();
  FakeBackend backend(16, 64, controls);
  ASSERT_GT(backend.max_rows(), 24);
  const auto runner = BenchRunner::open(*file, backend, 1, 100, CacheType::f16, 24);
  ASSERT_TRUE(runner) << runner.error().line();
  ASSERT_TRUE((*runner)->prefill(100, 1));
  EXPECT_EQ(controls->largest_step, 24);
}

}  // namespace
}  // namespace martlet::cli
