// How much of a step prompts get beside running streams.

#include "engine/manual_engine.h"

namespace martlet {
namespace {

constexpr ManualEngine::Shape kLarge = {.page_tokens = 16, .pages = 4096, .context = 8192};

struct Mixed {
  double slowest = 0;  // of the steps that held prompt rows
  int32_t least = 1 << 30;
};

// Eight streams, and a prompt of 4,096 tokens that comes among them.
Mixed serve(ManualEngine& engine) {
  std::mt19937 random(1);
  std::vector<std::shared_ptr<RecordingSink>> streams;
  for (int i = 0; i < 8; ++i) streams.push_back(engine.submit(greedy(random_tokens(random, 10), 400)));
  for (int i = 0; i < 20; ++i) engine.step();
  const std::vector<Token> prompt = random_tokens(random, 4096);
  const auto late = engine.submit(greedy(prompt, 1));
  Mixed mixed;
  while (!late->finished()) {
    const Step* step = engine.step();
    if (late->finished()) break;
    mixed.slowest = std::max(mixed.slowest, engine.step_seconds(step->rows()));
    mixed.least = std::min(mixed.least, step->rows() - 8);
  }
  EXPECT_EQ(late->output(), expected_output(prompt, 1));
  for (const auto& stream : streams) EXPECT_FALSE(stream->finished()) << "the test is too short";
  return mixed;
}

TEST(PrefillBudget, StreamsAreNotHeldUpBeyondTheTarget) {
  ManualEngine engine(kLarge);
  engine.step_seconds = [](int32_t rows) { return 10e-3 + 0.02e-3 * rows; };  // rows are cheap: 1.5 times is 254 rows
  const Mixed mixed = serve(engine);
  EXPECT_LE(mixed.slowest, kTpotFactor * engine.step_seconds(8) + 1e-9);
  EXPECT_GE(mixed.least, kLeastPrefill);
  EXPECT_GE(mixed.slowest, 1.3 * engine.step_seconds(8)) << "and what the target allows is used";
}

TEST(PrefillBudget, PromptsGetTheirLeastWhereRowsAreDear) {
  ManualEngine engine(kLarge);
  engine.step_seconds = [](int32_t rows) { return 1e-3 * rows; };
  const Mixed mixed = serve(engine);
  EXPECT_DOUBLE_EQ(mixed.slowest, engine.step_seconds(8 + kLeastPrefill));
  EXPECT_EQ(mixed.least, kLeastPrefill);
}

TEST(PrefillBudget, ATargetOfTheUsersOwn) {
  auto shape = kLarge;
  shape.tpot_target = 0.1;
  ManualEngine engine(shape);
  engine.step_seconds = [](int32_t rows) { return 1e-3 * rows; };
  const Mixed mixed = serve(engine);
  EXPECT_LE(mixed.slowest, 0.1 + 1e-9);
  EXPECT_GE(mixed.slowest, 0.08);
}

TEST(PrefillBudget, NobodyToHoldUpMeansWholeChunks) {
  ManualEngine engine(kLarge);
  std::mt19937 random(1);
  engine.submit(greedy(random_tokens(random, 1024), 1));
  EXPECT_EQ(engine.step()->rows(), 512);
  EXPECT_EQ(engine.step()->rows(), 512);
}

TEST(PrefillBudget, AShortPromptDoesNotWaitForALongOne) {
  ManualEngine engine(kLarge);
  std::mt19937 random(1);
  const auto long_one = engine.submit(greedy(random_tokens(random, 5000), 1));
  engine.step();
  const auto short_one = engine.submit(greedy(random_tokens(random, 100), 1));
  engine.step();
  EXPECT_TRUE(short_one->finished());
  // A stream of short prompts does not starve the long one: half of each step is its own.
  int steps = 0;
  for (; !long_one->finished(); ++steps) {
    for (int i = 0; i < 4; ++i) engine.submit(greedy(random_tokens(random, 200), 1));
    engine.step();
  }
  EXPECT_LE(steps, 5000 / 256 + 1);
}

}  // namespace
}  // namespace martlet
