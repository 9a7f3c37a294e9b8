#include <gtest/gtest.h>

#include "engine/fake_backend.h"
#include "file/model_file.h"
#include "martlet/engine.h"

namespace martlet {
namespace {

// A backend with a device of its own is told what was planned before the model is opened on it.
TEST(PlannedDevice, LimitsAndSpareMemoryAreThePlans) {
  const auto file = ModelFile::open("tests/golden/models/llama.gguf");
  ASSERT_TRUE(file) << file.error().line();
  const auto controls = std::make_shared<FakeControls>();
  constexpr int64_t kMiB = 1 << 20;
  controls->device_memory = DeviceMemory{.free = 300 * kMiB, .held = 20 * kMiB};
  controls->copy_bytes = kMiB;
  EngineOptions options;
  options.context = 64;
  options.max_sequences = 3;
  options.prefill_chunk = 16;
  const auto engine = Engine::create(*file, std::make_unique<FakeBackend>(16, 64, controls), options);
  ASSERT_TRUE(engine) << engine.error().line();
  EXPECT_EQ(controls->limits.rows, 19);
  EXPECT_EQ(controls->limits.sequences, 3);
  EXPECT_EQ(controls->limits.context, 64);
  const Plan& plan = (*engine)->plan();
  EXPECT_EQ(plan.ceiling, 310 * kMiB);
  EXPECT_GT(plan.copies, 10 * kMiB);
  EXPECT_EQ(controls->spare, plan.copies);
}

}  // namespace
}  // namespace martlet
