#include "engine/harness.h"
#include "engine/manual_engine.h"

namespace martlet {
namespace {

TEST(Scheduling, OneRequestGetsWhatItsTokensSay) {
  FakeEngine fake;
  const std::vector<Token> prompt = {5, 6, 7, 8, 9};
  const auto sink = fake.submit(greedy(prompt, 20));
  const Finish finish = sink->wait();
  EXPECT_EQ(finish.reason, FinishReason::length);
  EXPECT_EQ(sink->output(), expected_output(prompt, 20));
  EXPECT_EQ(finish.usage.prompt_tokens, 5);
  EXPECT_EQ(finish.usage.output_tokens, 20);
}

// Sizes of pages, pools and chunks must never show in the output.
class AnyShape : public testing::TestWithParam<FakeEngineOptions> {};

TEST_P(AnyShape, ManySequencesGetTheSameAsAlone) {
  FakeEngine fake(GetParam());
  std::mt19937 random(7);
  std::vector<std::vector<Token>> prompts;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  const std::vector<Token> common = random_tokens(random, 19);
  for (int32_t i = 0; i < 48; ++i) {
    std::vector<Token> prompt = i % 3 == 0 ? common : std::vector<Token>{};
    const std::vector<Token> rest = random_tokens(random, 1 + i);
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    prompts.push_back(prompt);
    sinks.push_back(fake.submit(greedy(prompt, 40)));
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    EXPECT_EQ(sinks[i]->wait().reason, FinishReason::length);
    EXPECT_EQ(sinks[i]->output(), expected_output(prompts[i], 40)) << "request " << i;
  }
  const EngineStats stats = fake.stats_when([](const EngineStats& s) { return s.requests_finished == 48; });
  EXPECT_EQ(stats.pages_used, 0);
  EXPECT_EQ(stats.running + stats.queued, 0);
  EXPECT_LE(fake.controls->largest_step, GetParam().prefill_chunk + GetParam().max_sequences);
}

INSTANTIATE_TEST_SUITE_P(Scheduling, AnyShape,
                         testing::Values(FakeEngineOptions{4, 1024, 128, 32, 16}, FakeEngineOptions{4, 32, 128, 32, 16},
                                         FakeEngineOptions{4, 40, 128, 5, 1}, FakeEngineOptions{1, 128, 128, 32, 7},
                                         FakeEngineOptions{16, 8, 128, 32, 512}, FakeEngineOptions{16, 11, 128, 3, 5}));

TEST(Scheduling, DecodingGoesOnBesideALongPrompt) {
  ManualEngine engine({.prefill_chunk = 4});
  std::mt19937 random(1);
  const auto stream = engine.submit(greedy({1, 2, 3}, 100));
  while (stream->emitted().empty()) engine.step();
  const auto prompt = engine.submit(greedy(random_tokens(random, 100), 1));
  const size_t before = stream->emitted().size();
  while (!prompt->finished()) ASSERT_TRUE(engine.step());
  // 25 chunks of 4 rows: the stream got a token in each of those steps.
  EXPECT_GE(stream->emitted().size(), before + 20);
}

TEST(Scheduling, PrefixIsAdoptedAndTheAnswerIsTheSame) {
  FakeEngine fake;
  std::mt19937 random(3);
  const std::vector<Token> prompt = random_tokens(random, 50);
  EXPECT_EQ(fake.submit(greedy(prompt, 9))->wait().usage.cached_tokens, 0);
  const auto again = fake.submit(greedy(prompt, 9));
  EXPECT_EQ(again->wait().usage.cached_tokens, 49);
  EXPECT_EQ(again->output(), expected_output(prompt, 9));
  // The whole prompt in full pages: its last token is computed all the same.
  const std::vector<Token> full(prompt.begin(), prompt.begin() + 48);
  const auto whole = fake.submit(greedy(full, 9));
  EXPECT_EQ(whole->wait().usage.cached_tokens, 47);
  EXPECT_EQ(whole->output(), expected_output(full, 9));
}

TEST(Scheduling, PrefixIsAdoptedWhileItsOwnerRuns) {
  ManualEngine engine({});
  std::mt19937 random(4);
  const std::vector<Token> prompt = random_tokens(random, 24);
  const auto owner = engine.submit(greedy(prompt, 90));
  while (owner->emitted().empty()) engine.step();
  const auto other = engine.submit(greedy(prompt, 3));
  while (!other->finished()) ASSERT_TRUE(engine.step());
  EXPECT_EQ(other->wait().usage.cached_tokens, 23);
  EXPECT_EQ(other->output(), expected_output(prompt, 3));
  EXPECT_FALSE(owner->finished());
  engine.run();
  EXPECT_EQ(owner->output(), expected_output(prompt, 90));
}

TEST(Scheduling, G8_DroppedPrefixesAreComputedAnewAndStreamsGoOn) {
  FakeEngine fake;
  fake.controls->step_milliseconds = kUnhurried;
  std::mt19937 random(5);
  const std::vector<Token> gone = random_tokens(random, 50), kept = random_tokens(random, 24);
  fake.submit(greedy(gone, 2))->wait();
  const auto stream = fake.submit(greedy(kept, 90));
  stream->wait_for_tokens(1);
  EXPECT_GT(fake.stats_when([](const EngineStats& s) { return s.pages_cached > 0; }).pages_cached, 0);
  fake.engine->drop_prompt_cache();
  fake.stats_when([](const EngineStats& s) { return s.pages_cached == 0; });
  fake.controls->step_milliseconds = 0;
  const auto again = fake.submit(greedy(gone, 2));
  EXPECT_EQ(again->wait().usage.cached_tokens, 0);
  EXPECT_EQ(again->output(), expected_output(gone, 2));
  stream->wait();
  EXPECT_EQ(stream->output(), expected_output(kept, 90));
}

TEST(Scheduling, StopTokenEndsAndIsMarked) {
  FakeEngine fake;
  const std::vector<Token> expected = expected_output({1, 2}, 6);
  Request request = greedy({1, 2}, 50);
  request.stop_tokens = {expected[5]};
  const auto sink = fake.submit(std::move(request));
  const Finish finish = sink->wait();
  EXPECT_EQ(finish.reason, FinishReason::stop);
  EXPECT_EQ(finish.usage.output_tokens, 6);
  EXPECT_TRUE(sink->emitted().back().stop);
  EXPECT_EQ(sink->output(), expected);
}

TEST(Scheduling, TopLogprobsReachTheirRequest) {
  FakeEngine fake;
  Request wants = greedy({1, 2, 3}, 2);
  wants.top_logprobs = 3;
  const auto plain = fake.submit(greedy({4, 5, 6}, 2));
  const auto sink = fake.submit(std::move(wants));
  sink->wait();
  for (const Emitted& e : sink->emitted()) {
    ASSERT_EQ(e.top.size(), 3u);
    EXPECT_EQ(e.top[0].first, e.token);
  }
  plain->wait();
  EXPECT_TRUE(plain->emitted()[0].top.empty());
}

TEST(Scheduling, PromptIsScoredInChunks) {
  FakeEngine fake({.pages = 256, .context = 256, .prefill_chunk = 40});
  std::mt19937 random(5);
  std::vector<Token> prompt = random_tokens(random, 150);
  prompt[100] = expected_token(std::span(prompt).first(100));  // one that the fake gives log-probability 0
  for (const int32_t max_tokens : {0, 3}) {
    Request request = greedy(prompt, max_tokens);
    request.prompt_logprobs = true;
    request.top_logprobs = 2;
    const auto sink = fake.submit(std::move(request));
    const Finish finish = sink->wait();
    EXPECT_EQ(finish.reason, FinishReason::length);
    EXPECT_EQ(finish.usage.cached_tokens, 0) << "every row must be computed to be scored";
    const std::vector<Emitted> emitted = sink->emitted();
    ASSERT_EQ(emitted.size(), 149u + static_cast<size_t>(max_tokens));
    for (size_t i = 0; i < 149; ++i) {
      EXPECT_TRUE(emitted[i].prompt);
      EXPECT_EQ(emitted[i].token, prompt[i + 1]);
      EXPECT_EQ(emitted[i].top[0].first, expected_token(std::span(prompt).first(i + 1)));
    }
    EXPECT_EQ(emitted[99].logprob, 0);
    EXPECT_EQ(sink->output(), expected_output(prompt, max_tokens));
  }
}

TEST(Scheduling, ScoringSurvivesPreemption) {
  FakeEngine fake({.page_tokens = 4, .pages = 32, .context = 128, .prefill_chunk = 8});
  std::mt19937 random(6);
  std::vector<std::vector<Token>> prompts;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 6; ++i) {
    prompts.push_back(random_tokens(random, 30));
    Request request = greedy(prompts.back(), 60);
    request.prompt_logprobs = true;
    sinks.push_back(fake.submit(std::move(request)));
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    sinks[i]->wait();
    EXPECT_EQ(sinks[i]->output(), expected_output(prompts[i], 60));
    EXPECT_EQ(sinks[i]->emitted().size(), 29u + 60u);
  }
}

}  // namespace
}  // namespace martlet
