// How much of a step prompts get beside running streams.

#include "engine/manual_engine.h"

namespace martlet {
namespace {

constexpr ManualEngine::Shape kLarge = {.page_tokens = 16, .pages = 4096, .context = 8192};

// Of the steps that held prompt rows; the last, which holds what is left, only counts among `steps`.
struct Mixed {
  double slowest = 0;
  int32_t least = 1 << 30, steps = 0;
};

// Eight streams, and a long prompt that comes among them.
Mixed serve(ManualEngine& engine, int32_t prompt_tokens = 4096) {
  std::mt19937 random(1);
  std::vector<std::shared_ptr<RecordingSink>> streams;
  for (int i = 0; i < 8; ++i) streams.push_back(engine.submit(greedy(random_tokens(random, 10), 400)));
  for (int i = 0; i < 20; ++i) engine.step();
  const std::vector<Token> prompt = random_tokens(random, prompt_tokens);
  const auto late = engine.submit(greedy(prompt, 1));
  Mixed mixed;
  while (!late->finished()) {
    const Step* step = engine.step();
    ++mixed.steps;
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

TEST(PrefillBudget, PromptsGetTheirLeastWhereTheTargetIsMissed) {
  ManualEngine engine(kLarge);
  engine.step_seconds = [](int32_t rows) { return 30e-3 + 1e-3 * rows; };  // 1.5 times is 19 rows, 32 are 1.8 times
  const Mixed mixed = serve(engine);
  EXPECT_DOUBLE_EQ(mixed.slowest, engine.step_seconds(8 + kLeastPrefill));
  EXPECT_EQ(mixed.least, kLeastPrefill);
}

TEST(PrefillBudget, ALongPromptGetsFewerWhereRowsAreDear) {
  ManualEngine engine(kLarge);
  engine.step_seconds = [](int32_t rows) { return 1e-3 * rows; };  // 32 are 5 times, twice is 8 rows
  const Mixed mixed = serve(engine, 2048);
  EXPECT_LE(mixed.slowest, kMostTpotFactor * engine.step_seconds(8) + 1e-9);
  EXPECT_EQ(mixed.least, 8);
}

TEST(PrefillBudget, ButNeverFewerThanAFew) {
  ManualEngine engine(kLarge);
  engine.step_seconds = [](int32_t rows) { return rows > 8 ? 1e-3 * rows : 1e-6; };
  EXPECT_EQ(serve(engine, 1024).least, kFewestPrefill);
}

TEST(PrefillBudget, APromptThatEndsGetsItsRowsEvenWhereTheyAreDear) {
  ManualEngine engine(kLarge);
  engine.step_seconds = [](int32_t rows) { return 1e-3 * rows; };
  EXPECT_EQ(serve(engine, kLeastPrefill).steps, 1);
}

TEST(PrefillBudget, AShortPromptEndsBesideALongOneEvenWhereRowsAreDear) {
  ManualEngine engine(kLarge);
  engine.step_seconds = [](int32_t rows) { return 1e-3 * rows; };
  std::mt19937 random(1);
  for (int i = 0; i < 8; ++i) engine.submit(greedy(random_tokens(random, 10), 400));
  for (int i = 0; i < 20; ++i) engine.step();
  engine.submit(greedy(random_tokens(random, 2048), 1));
  for (int i = 0; i < 20; ++i) engine.step();
  const auto tiny = engine.submit(greedy(random_tokens(random, 3), 1));
  EXPECT_EQ(engine.step()->rows(), 8 + 8 + 3) << "the long one gets no more for that";
  EXPECT_TRUE(tiny->finished());
  const auto short_one = engine.submit(greedy(random_tokens(random, kLeastPrefill), 1));
  EXPECT_EQ(engine.step()->rows(), 8 + kLeastPrefill);
  engine.step(), engine.step();
  EXPECT_TRUE(short_one->finished()) << "half of each step is its own";
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
