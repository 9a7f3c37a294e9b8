// Drafting in the engine, on the fake backend: whatever a drafter does, the tokens are those of no drafting.

#include <gtest/gtest.h>

#include <stdexcept>

#include "draft/ngram_drafter.h"
#include "engine/draft_speculator.h"
#include "engine/harness.h"

namespace martlet {
namespace {

// How a drafter misbehaves, or does not.
struct Behaviour {
  std::atomic<int> right_percent{100};
  std::atomic<bool> throws{false}, fails{false}, nonsense{false}, out_of_memory{false};
  std::atomic<int> stall_milliseconds{0};
  std::atomic<int> calls{0}, forgotten{0}, given_back{0};
};

class OracleDrafter final : public Drafter {
 public:
  explicit OracleDrafter(std::shared_ptr<Behaviour> behaviour) : behaviour_(std::move(behaviour)) {}

  std::string_view name() const override { return "oracle"; }
  bool free() const override { return false; }
  Status draft(std::span<DraftTask> tasks, DraftGate gate, double) override {
    ++behaviour_->calls;
    if (behaviour_->throws) throw std::runtime_error("injected");
    if (behaviour_->fails) return Error{ErrorKind::internal, "injected", "", ""};
    if (behaviour_->out_of_memory) return Error{ErrorKind::memory, "out_of_memory", "", ""};
    if (const int ms = behaviour_->stall_milliseconds) std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    for (size_t t = 0; t < tasks.size(); ++t) draft_one(tasks[t], t, gate);
    return {};
  }
  void forget(RequestId) override { ++behaviour_->forgotten; }
  bool give_back() override { return behaviour_->given_back++ == 0; }

 private:
  void draft_one(DraftTask& task, size_t index, DraftGate gate) {
    std::vector<Token> text(task.tokens.begin(), task.tokens.end());
    for (int32_t i = 0; i < task.length; ++i) {
      const Verdict verdict = gate(index, i, 5);
      if (verdict == Verdict::drop) return;
      const bool right = static_cast<int>(random_() % 100) < behaviour_->right_percent;
      Token token = expected_token(text);
      if (!right) token = (token + 1) % kFakeVocabulary;
      if (behaviour_->nonsense) token = static_cast<Token>(random_()) - (1 << 30);
      task.draft->add(token, 5);
      text.push_back(token);
      if (verdict == Verdict::last) return;
    }
  }

  std::shared_ptr<Behaviour> behaviour_;
  std::mt19937 random_{1};
};

struct DraftingEngine {
  explicit DraftingEngine(FakeEngineOptions options = {}, const char* rule = "auto", bool ngram = false)
      : behaviour(std::make_shared<Behaviour>()) {
    options.open_speculator = [this, rule, ngram](Backend&) -> Result<std::unique_ptr<Speculator>> {
      std::unique_ptr<Drafter> drafter;
      if (ngram)
        drafter = std::make_unique<NgramDrafter>();
      else
        drafter = std::make_unique<OracleDrafter>(behaviour);
      return std::unique_ptr<Speculator>(
          std::make_unique<DraftSpeculator>(std::move(drafter), *parse_speculation(rule), kFakeVocabulary));
    };
    fake = std::make_unique<FakeEngine>(options);
  }
  std::shared_ptr<Behaviour> behaviour;
  std::unique_ptr<FakeEngine> fake;
};

// 200 prompts under every controller, alone, by five and by sixteen at a time, with little memory so that prefixes are
// shared, evicted and sequences preempted while drafts come and go.
TEST(Drafts, TheTextIsThatOfNoDraftingUnderEveryControllerAndBatchSize) {
  std::mt19937 random(11);
  std::vector<std::vector<Token>> prompts;
  for (int i = 0; i < 200; ++i) {
    std::vector<Token> prompt = random_tokens(random, 1 + static_cast<int32_t>(random() % 30));
    if (i % 3 == 0 && i > 0) prompt.insert(prompt.begin(), prompts[0].begin(), prompts[0].end());  // shared prefixes
    prompts.push_back(prompt);
  }
  for (const char* rule : {"off", "window", "auto", "fixed:1", "fixed:5", "fixed:16"}) {
    for (const size_t at_once : {size_t{1}, size_t{5}, size_t{16}}) {
      for (const int right : {100, 60, 0}) {
        DraftingEngine engine({.pages = 64, .context = 100}, rule);
        engine.behaviour->right_percent = right;
        for (size_t first = 0; first < prompts.size(); first += at_once) {
          std::vector<std::shared_ptr<RecordingSink>> sinks;
          const size_t end = std::min(prompts.size(), first + at_once);
          for (size_t i = first; i < end; ++i)
            sinks.push_back(engine.fake->submit(greedy(prompts[i], 1 + static_cast<int32_t>(i % 25))));
          for (size_t i = first; i < end; ++i) {
            ASSERT_EQ(sinks[i - first]->wait().reason, FinishReason::length);
            ASSERT_EQ(sinks[i - first]->output(), expected_output(prompts[i], 1 + static_cast<int32_t>(i % 25)))
                << rule << " " << at_once << " " << right << " prompt " << i;
          }
        }
        const EngineStats stats = engine.fake->stats_when(
            [&](const EngineStats& s) { return s.requests_finished == prompts.size() && s.pages_used == 0; });
        if (std::string_view(rule).starts_with("fixed")) {
          EXPECT_GT(stats.speculation.drafts.drafted_tokens(), 1000);
          const auto accepted = static_cast<double>(stats.speculation.drafts.accepted_tokens());
          if (right == 100) {
            EXPECT_GT(accepted, 0.9 * static_cast<double>(stats.speculation.drafts.drafted_tokens()));
          }
          if (right == 0) {
            EXPECT_EQ(accepted, 0);
          }
        }
      }
    }
  }
}

TEST(Drafts, AcceptedDraftsSaveSteps) {
  DraftingEngine engine({}, "fixed:4");
  const auto sink = engine.fake->submit(greedy({1, 2, 3}, 50));
  const Usage usage = sink->wait().usage;
  EXPECT_EQ(usage.output_tokens, 50);
  EXPECT_EQ(usage.decode_steps,
            11);  // one after the prompt, then five tokens a step; the last step has no room for all
  EXPECT_EQ(usage.drafts.drafted_tokens(), usage.drafts.accepted_tokens());
  EXPECT_EQ(usage.drafts.drafted_tokens(), 39);
  EXPECT_EQ(usage.drafts.drafted, (std::array<int64_t, kMaxDraft>{10, 10, 10, 9}));
  EXPECT_EQ(usage.drafts.accepted, usage.drafts.drafted);
  EXPECT_GT(usage.drafts.price_seconds, 0);
}

TEST(Drafts, ARequestChoosesItsOwnRule) {
  DraftingEngine engine({}, "off");
  Request request = greedy({1, 2, 3}, 30);
  EXPECT_EQ(engine.fake->submit(request)->wait().usage.drafts.drafted_tokens(), 0);
  request.speculation = *parse_speculation("fixed:3");
  EXPECT_GT(engine.fake->submit(request)->wait().usage.drafts.drafted_tokens(), 15);
}

TEST(Drafts, WithoutADrafterARuleIsRefused) {
  FakeEngine engine;
  Request request = greedy({1}, 3);
  request.speculation = *parse_speculation("auto");
  const auto refused = engine.engine->submit(request, std::make_shared<RecordingSink>());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, "speculation");
  request.speculation = *parse_speculation("off");
  EXPECT_EQ(engine.submit(request)->wait().reason, FinishReason::length);
}

TEST(Drafts, AStopTokenInsideADraftEndsTheText) {
  DraftingEngine engine({}, "fixed:8");
  const std::vector<Token> expected = expected_output({5, 6}, 20);
  Request request = greedy({5, 6}, 20);
  request.stop_tokens = {expected[6]};
  const auto sink = engine.fake->submit(request);
  EXPECT_EQ(sink->wait().reason, FinishReason::stop);
  EXPECT_EQ(sink->output(), std::vector<Token>(expected.begin(), expected.begin() + 7));
  engine.fake->stats_when([](const EngineStats& s) { return s.pages_used == 0; });
}

TEST(Drafts, RepetitionsAreFoundByNgrams) {
  // The fake model never repeats itself: the drafts are wrong and cost nothing but rows. The second time the prompt is
  // cached but for its last token, so the first step drafts already.
  DraftingEngine engine({}, "fixed:4", true);
  const std::vector<Token> prompt = {1, 2, 3, 1, 2, 3, 1, 2, 3};
  engine.fake->submit(greedy(prompt, 20))->wait();
  const auto sink = engine.fake->submit(greedy(prompt, 20));
  EXPECT_EQ(sink->wait().usage.drafts.drafted_tokens(), 4);
  EXPECT_EQ(sink->output(), expected_output(prompt, 20));
}

TEST(DraftFaults, ADrafterThatThrowsFailsStallsOrTalksNonsenseChangesNoText) {
  for (int fault = 0; fault < 4; ++fault) {
    DraftingEngine engine({}, "fixed:4");
    Behaviour& b = *engine.behaviour;
    b.throws = fault == 0;
    b.fails = fault == 1;
    b.nonsense = fault == 2;
    if (fault == 3) b.stall_milliseconds = 20;
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (Token t = 0; t < 4; ++t) sinks.push_back(engine.fake->submit(greedy({t, 7, 8}, 20)));
    for (Token t = 0; t < 4; ++t) {
      EXPECT_EQ(sinks[static_cast<size_t>(t)]->wait().reason, FinishReason::length);
      EXPECT_EQ(sinks[static_cast<size_t>(t)]->output(), expected_output({t, 7, 8}, 20)) << fault;
    }
    EXPECT_GT(b.calls, 0);
    const uint64_t failures = engine.fake->engine->stats().speculation.failures;
    EXPECT_EQ(failures > 0, fault < 2) << fault;
  }
}

TEST(DraftFaults, G8_ADrafterWithoutMemoryIsGivenBackAndTheStreamGoesOn) {
  DraftingEngine engine({}, "fixed:4");
  engine.behaviour->out_of_memory = true;
  const auto sink = engine.fake->submit(greedy({1, 2}, 20));
  EXPECT_EQ(sink->wait().reason, FinishReason::length);
  EXPECT_EQ(sink->output(), expected_output({1, 2}, 20));
  EXPECT_GE(engine.behaviour->given_back, 1);
  EXPECT_TRUE(
      engine.fake->stats_when([](const EngineStats& s) { return s.speculation.given_back; }).speculation.given_back);
}

// Want of memory in the middle of a stream: the draft model goes, and the prompts stay where that was enough.
TEST(DraftFaults, G8_TheDraftModelIsGivenBackBeforeCachedPrompts) {
  const std::vector<Token> cached = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (const int32_t starved : {1, 2}) {
    DraftingEngine engine({}, "fixed:4");
    engine.fake->submit(greedy(cached, 1))->wait();
    engine.fake->controls->step_milliseconds = kUnhurried;
    const auto sink = engine.fake->submit(greedy({50, 51}, 100));
    sink->wait_for_tokens(2);
    engine.fake->controls->starved_steps = starved;
    engine.fake->controls->step_milliseconds = 0;
    EXPECT_EQ(sink->wait().reason, FinishReason::length);
    EXPECT_EQ(sink->output(), expected_output({50, 51}, 100));
    EXPECT_EQ(engine.fake->controls->starved_steps, 0);
    EXPECT_GE(engine.behaviour->given_back, 1);
    EXPECT_TRUE(engine.fake->engine->stats().speculation.given_back);
    EXPECT_EQ(engine.fake->submit(greedy(cached, 1))->wait().usage.cached_tokens, starved == 1 ? 8 : 0);
  }
}

TEST(DraftFaults, G8_WithThePromptCacheGoesTheDraftModel) {
  DraftingEngine engine({}, "fixed:4");
  const std::vector<Token> cached = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  engine.fake->submit(greedy(cached, 1))->wait();
  engine.fake->engine->drop_prompt_cache();
  engine.fake->stats_when([](const EngineStats& s) { return s.pages_cached == 0 && s.speculation.given_back; });
  EXPECT_EQ(engine.fake->submit(greedy(cached, 1))->wait().usage.cached_tokens, 0);
}

TEST(DraftFaults, D11_CancelledWhileItDrafts) {
  DraftingEngine engine({}, "fixed:8");
  engine.behaviour->stall_milliseconds = kUnhurried;
  const auto other = engine.fake->submit(greedy({9, 9}, 60));
  const auto sink = std::make_shared<RecordingSink>();
  const RequestId id = engine.fake->submit(greedy({3, 4}, 120), sink);
  sink->wait_for_tokens(9);
  engine.fake->engine->cancel(id);
  EXPECT_EQ(sink->wait().reason, FinishReason::cancelled);
  EXPECT_EQ(other->wait().reason, FinishReason::length);
  EXPECT_EQ(other->output(), expected_output({9, 9}, 60));
  engine.fake->stats_when([](const EngineStats& s) { return s.pages_used == 0; });
  EXPECT_EQ(engine.behaviour->forgotten, 2);
}

}  // namespace
}  // namespace martlet
