// Drafts change how many steps an answer takes, never what it says.

#include "engine/manual_engine.h"

namespace martlet {
namespace {

// Knows the answer, and is wrong as often as it is told to be.
class Oracle final : public Speculator {
 public:
  Oracle(int32_t length, double right) : length_(length), right_(right) {}
  void propose(std::span<Sequence* const> decoding, const StepOutlook& step) override {
    int32_t rows = step.spare_rows;
    for (Sequence* sequence : decoding) {
      const int32_t count = std::min({length_, sequence->most_drafts(), rows});
      sequence->drafts = expected_output(sequence->tokens, count);
      for (Token& draft : sequence->drafts)
        if (std::uniform_real_distribution<>()(random_) >= right_) draft = (draft + 1) % kFakeVocabulary;
      rows -= count;
    }
  }
  void verified(Sequence& sequence, std::span<const Emitted> emitted, double) override {
    proposed += static_cast<int32_t>(sequence.drafts.size());
    for (size_t i = 0; i < std::min(emitted.size(), sequence.drafts.size()); ++i)
      accepted += emitted[i].token == sequence.drafts[i] ? 1 : 0;
  }
  void forget(const Sequence&) override {}
  int32_t proposed = 0, accepted = 0;

 private:
  const int32_t length_;
  const double right_;
  std::mt19937 random_{1};
};

class AnyAccuracy : public testing::TestWithParam<std::pair<int32_t, double>> {};

TEST_P(AnyAccuracy, TheAnswerIsTheSame) {
  const auto [length, right] = GetParam();
  for (const int32_t pages : {40, 400}) {
    Oracle oracle(length, right);
    ManualEngine engine({.pages = pages, .max_sequences = 8, .prefill_chunk = 16}, &oracle);
    std::mt19937 random(2);
    std::vector<std::vector<Token>> prompts;
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (int32_t i = 0; i < 20; ++i) {
      prompts.push_back(random_tokens(random, 1 + i));
      sinks.push_back(engine.submit(greedy(prompts.back(), 60)));
    }
    engine.run();
    for (size_t i = 0; i < sinks.size(); ++i) EXPECT_EQ(sinks[i]->output(), expected_output(prompts[i], 60));
    EXPECT_EQ(engine.scheduler.stats().pages_used, 0);
    EXPECT_GT(oracle.proposed, 0);
    EXPECT_LE(oracle.accepted, oracle.proposed);
    if (right == 1) {
      EXPECT_EQ(oracle.accepted, oracle.proposed);
    }
    if (right == 0) {
      EXPECT_EQ(oracle.accepted, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Speculation, AnyAccuracy,
                         testing::Values(std::pair{1, 1.0}, std::pair{4, 0.7}, std::pair{15, 1.0}, std::pair{7, 0.0}));

TEST(Speculation, RightDraftsSaveSteps) {
  Oracle oracle(4, 1);
  ManualEngine engine({}, &oracle);
  const auto sink = engine.submit(greedy({1, 2, 3}, 51));
  EXPECT_EQ(engine.run(), 1 + 10) << "the prompt's step draws one, each further step five";
  EXPECT_EQ(sink->output(), expected_output({1, 2, 3}, 51));
}

TEST(Speculation, AStopTokenInsideADraftEndsTheAnswerThere) {
  Oracle oracle(8, 1);
  ManualEngine engine({}, &oracle);
  const std::vector<Token> expected = expected_output({1, 2}, 6);
  Request request = greedy({1, 2}, 50);
  request.stop_tokens = {expected[5]};
  const auto sink = engine.submit(std::move(request));
  engine.run();
  EXPECT_EQ(sink->output(), expected);
  EXPECT_EQ(sink->wait().reason, FinishReason::stop);
}

// Drafts are rewound out of pages whose beginning others have adopted, or adopt just then.
TEST(Speculation, RewindsUnderSharedPrefixes) {
  Oracle oracle(6, 0.6);
  ManualEngine engine({.pages = 160, .max_sequences = 8}, &oracle);
  std::mt19937 random(4);
  const std::vector<Token> common = random_tokens(random, 22);  // five pages and a half
  const auto owner = engine.submit(greedy(common, 100));
  for (int i = 0; i < 4; ++i) engine.step();
  std::vector<std::pair<std::vector<Token>, std::shared_ptr<RecordingSink>>> others;
  for (int i = 0; i < 24; ++i) {
    std::vector<Token> prompt = common;
    const std::vector<Token> known = owner->output();
    prompt.insert(prompt.end(), known.begin(), known.begin() + static_cast<std::ptrdiff_t>(random() % known.size()));
    if (i % 3 == 0) prompt.push_back(500 + i);  // goes on otherwise, inside a page that the owner writes to
    others.emplace_back(prompt, engine.submit(greedy(prompt, 15)));
    if (i % 2 == 0) engine.step();
  }
  engine.run();
  EXPECT_EQ(owner->output(), expected_output(common, 100));
  for (const auto& [prompt, sink] : others) {
    EXPECT_EQ(sink->output(), expected_output(prompt, std::min(15, 128 - static_cast<int32_t>(prompt.size()))));
    EXPECT_GE(sink->wait().usage.cached_tokens, 21);
  }
  EXPECT_GT(oracle.accepted, 50);
  EXPECT_GT(oracle.proposed, oracle.accepted);
  EXPECT_EQ(engine.scheduler.stats().pages_used, 0);
}

// What was rejected is not there for others.
TEST(Speculation, RejectedRowsAreNeverPublished) {
  Oracle oracle(6, 0.5);
  ManualEngine engine({}, &oracle);
  std::mt19937 random(3);
  for (int i = 0; i < 30; ++i) {
    std::vector<Token> prompt = random_tokens(random, 6);
    const auto first = engine.submit(greedy(prompt, 40));
    engine.run();
    prompt = [&] {
      std::vector<Token> longer = prompt;
      for (const Token token : first->output()) longer.push_back(token);
      return longer;
    }();
    const auto next = engine.submit(greedy(prompt, 10));
    engine.run();
    EXPECT_GE(next->wait().usage.cached_tokens, 44);
    EXPECT_EQ(next->output(), expected_output(prompt, 10));
  }
}

// The state of a recurrent model is what it was before the first draft that was wrong: with slots for many drafts and
// for few, where sequences are preempted, and where a step comes to nothing and is tried again.
TEST(Speculation, RecurrentStatesAreRewoundBehindTheLastRightDraft) {
  for (const int32_t states : {8, 11, 64}) {
    for (const int32_t pages : {40, 400}) {
      Oracle oracle(6, 0.6);
      ManualEngine engine({.pages = pages, .max_sequences = 4, .prefill_chunk = 16, .states = states}, &oracle);
      std::mt19937 random(6);
      std::vector<std::vector<Token>> prompts;
      std::vector<std::shared_ptr<RecordingSink>> sinks;
      for (int32_t i = 0; i < 30; ++i) {
        prompts.push_back(random_tokens(random, 1 + i));
        if (i % 3 == 2) prompts.back() = prompts[0];
        sinks.push_back(engine.submit(greedy(prompts.back(), 60)));
      }
      do {
        if (random() % 4 == 0) engine.scheduler.next();
      } while (engine.step());
      for (size_t i = 0; i < sinks.size(); ++i) EXPECT_EQ(sinks[i]->output(), expected_output(prompts[i], 60));
      EXPECT_GT(oracle.proposed, oracle.accepted);
      EXPECT_GT(oracle.accepted, 0);
      EXPECT_EQ(engine.scheduler.stats().preemptions > 0, pages == 40);
      EXPECT_EQ(engine.scheduler.stats().cached_tokens, 0u);
    }
  }
}

}  // namespace
}  // namespace martlet
