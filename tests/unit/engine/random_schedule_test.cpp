// Random schedules of admitting, extending, forking and cancelling, in a pool small enough that prefixes are evicted
// and sequences preempted, against what the tokens alone say. Where rapidcheck is installed, it also shortens a
// failure.

#if __has_include(<rapidcheck.h>)
#include <rapidcheck.h>

#include <map>

#include "engine/manual_engine.h"

namespace martlet {
namespace {

enum class Move : uint8_t { admit, extend, fork, cancel, step };

struct Command {
  Move move;
  uint8_t size, choice;
};

std::ostream& operator<<(std::ostream& out, const Command& c) {
  constexpr const char* kNames[] = {"admit", "extend", "fork", "cancel", "step"};
  return out << kNames[static_cast<size_t>(c.move)] << '(' << int{c.size} << ", " << int{c.choice} << ')';
}

// Half of the drafts are wrong.
class HalfRight final : public Speculator {
 public:
  void propose(std::span<Sequence* const> decoding, const StepOutlook& step) override {
    int32_t rows = step.spare_rows;
    for (Sequence* sequence : decoding) {
      const int32_t count = std::min({2, sequence->most_drafts(), rows});
      sequence->drafts = expected_output(sequence->tokens, count);
      if (sequence->size() % 2) std::fill(sequence->drafts.begin(), sequence->drafts.end(), 0);
      rows -= count;
    }
  }
  void verified(Sequence&, std::span<const Emitted>, double) override {}
  void forget(const Sequence&) override {}
};

class Schedule {
 public:
  Schedule(int32_t pages, Speculator* speculator)
      : engine_({.page_tokens = 4, .pages = pages, .context = 64, .max_sequences = 5, .prefill_chunk = 9}, speculator) {
  }

  void apply(const Command& c) {
    const size_t known = asked_.empty() ? 0 : c.choice % asked_.size();
    switch (c.move) {
      case Move::admit:
        return ask(prompt(c), c);
      case Move::extend:
        return asked_.empty() ? void() : ask(extended(known, c), c);
      case Move::fork:
        for (int i = 0; !asked_.empty() && i < 3; ++i) ask(asked_[known].prompt, c, asked_[known].tenant);
        return;
      case Move::cancel:
        return asked_.empty() ? void() : cancel(known);
      case Move::step:
        for (int i = 0; i <= c.size % 8; ++i) engine_.step();
    }
  }

  void finish() {
    engine_.run();
    for (const Asked& asked : asked_) {
      const Finish finish = asked.sink->wait(std::chrono::seconds(0));
      const std::vector<Token> output = asked.sink->output();
      RC_ASSERT(output == expected_output(asked.prompt, static_cast<int32_t>(output.size())));
      if (!asked.cancelled) {
        RC_ASSERT(finish.reason == FinishReason::length);
        RC_ASSERT(static_cast<int32_t>(output.size()) ==
                  std::min(asked.tokens, 64 - static_cast<int32_t>(asked.prompt.size())));
      }
      RC_ASSERT(finish.usage.cached_tokens <= asked.sharable);
    }
    const EngineStats stats = engine_.scheduler.stats();
    RC_ASSERT(stats.pages_used == 0);
    RC_ASSERT(stats.running + stats.queued == 0);
    RC_ASSERT(stats.requests_finished == asked_.size());
  }

 private:
  struct Asked {
    RequestId id;
    std::vector<Token> prompt;
    int32_t tenant, tokens, sharable;
    std::shared_ptr<RecordingSink> sink;
    bool cancelled = false;
  };

  // Of few different tokens, so that prompts begin alike by chance.
  static std::vector<Token> prompt(const Command& c) {
    std::mt19937 random(c.choice % 16);
    std::vector<Token> tokens(1 + c.size % 60);
    for (Token& token : tokens) token = static_cast<Token>(random() % 2);
    if (c.choice & 16) tokens.back() = 2;
    return tokens;
  }
  std::vector<Token> extended(size_t known, const Command& c) const {
    std::vector<Token> tokens = asked_[known].prompt;
    for (const Token token : expected_output(tokens, c.size % 12)) tokens.push_back(token);
    tokens.push_back(c.size % 3);
    tokens.resize(std::min<size_t>(tokens.size(), 60));
    return tokens;
  }

  void ask(std::vector<Token> prompt, const Command& c, std::optional<int32_t> tenant = {}) {
    Asked asked{.id = 0,
                .prompt = std::move(prompt),
                .tenant = tenant.value_or(c.choice % 3),
                .tokens = 1 + c.size % 20,
                .sharable = 0,
                .sink = std::make_shared<RecordingSink>()};
    Request request = greedy(asked.prompt, asked.tokens);
    request.tenant = asked.tenant;
    request.priority = c.choice % 7 - 3;
    asked.sharable = longest_shared(asked);
    asked.id = engine_.submit(std::move(request), asked.sink);
    asked_.push_back(std::move(asked));
  }

  // With anything that the same tenant asked and was or could be answered, its later requests included.
  int32_t longest_shared(const Asked& asked) {
    std::vector<std::vector<Token>>& seen = seen_[asked.tenant];
    int32_t longest = 0;
    for (const std::vector<Token>& other : seen) {
      const auto end = std::mismatch(asked.prompt.begin(), asked.prompt.end(), other.begin(), other.end()).first;
      longest = std::max(longest, static_cast<int32_t>(end - asked.prompt.begin()));
    }
    std::vector<Token> whole = asked.prompt;
    for (const Token token : expected_output(whole, asked.tokens)) whole.push_back(token);
    for (Asked& earlier : asked_) {  // one that still waits may adopt from this one
      if (earlier.tenant != asked.tenant) continue;
      const auto end = std::mismatch(earlier.prompt.begin(), earlier.prompt.end(), whole.begin(), whole.end()).first;
      earlier.sharable = std::max(earlier.sharable, static_cast<int32_t>(end - earlier.prompt.begin()));
    }
    seen.push_back(std::move(whole));
    return longest;
  }

  void cancel(size_t known) {
    Asked& asked = asked_[known];
    if (asked.sink->finished()) return;
    engine_.scheduler.cancel(asked.id);
    asked.cancelled = true;
    RC_ASSERT(asked.sink->finished());
  }

  ManualEngine engine_;
  std::vector<Asked> asked_;
  std::map<int32_t, std::vector<std::vector<Token>>> seen_;  // by tenant
};

}  // namespace
}  // namespace martlet

template <>
struct rc::Arbitrary<martlet::Command> {
  static Gen<martlet::Command> arbitrary() {
    using martlet::Command;
    using martlet::Move;
    const auto move = gen::weightedElement<Move>(
        {{4, Move::admit}, {3, Move::extend}, {2, Move::fork}, {2, Move::cancel}, {6, Move::step}});
    return gen::build<Command>(gen::set(&Command::move, move), gen::set(&Command::size), gen::set(&Command::choice));
  }
};

namespace martlet {
namespace {

void check(bool speculate) {
  for (int round = 0; round < 10; ++round)
    EXPECT_TRUE(rc::check([&](const std::vector<Command>& commands) {
      HalfRight speculator;
      Schedule schedule(*rc::gen::inRange(16, 48), speculate ? &speculator : nullptr);
      for (const Command& command : commands) schedule.apply(command);
      schedule.finish();
    }));
}

TEST(RandomSchedule, GivesWhatTheTokensSay) {
  check(false);
}
TEST(RandomSchedule, GivesWhatTheTokensSayWithDrafts) {
  check(true);
}

}  // namespace
}  // namespace martlet
#else
#include <gtest/gtest.h>

TEST(RandomSchedules, NeedRapidcheck) {
  GTEST_SKIP() << "rapidcheck was not found: no random schedules are checked";
}
#endif
