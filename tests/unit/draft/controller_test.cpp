// The controllers, with virtual costs and a drafter that is right as often as a test says.

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>

#include "backend/cost_table.h"
#include "draft/drafting.h"

namespace martlet {
namespace {

TEST(Speculation, IsParsedStrictly) {
  EXPECT_EQ(parse_speculation("auto")->mode, Speculation::Mode::automatic);
  EXPECT_EQ(parse_speculation("window")->mode, Speculation::Mode::window);
  EXPECT_EQ(parse_speculation("off")->mode, Speculation::Mode::off);
  const auto fixed = parse_speculation("fixed:8");
  ASSERT_TRUE(fixed);
  EXPECT_EQ(fixed->mode, Speculation::Mode::fixed);
  EXPECT_EQ(fixed->length, 8);
  for (const char* text : {"", "Auto", "fixed", "fixed:", "fixed:0", "fixed:17", "fixed:-1", "fixed:5x", "fixed: 5"})
    EXPECT_FALSE(parse_speculation(text)) << text;
}

TEST(WindowRule, DecidesAsTheRecordedTraceDecisionByDecision) {
  std::ifstream trace("tests/golden/draft/window_trace.txt");
  ASSERT_TRUE(trace);
  WindowRule rule;
  int32_t length, accepted, joined, left = 0, step = 0, off = 0, longest = 0;
  for (; trace >> length >> accepted >> joined; ++step) {
    if (length < 0) {
      rule = {};
      left = joined - 1;  // the first token comes out of the prompt
      continue;
    }
    ASSERT_EQ(std::min(rule.length(), left - 1), length) << "step " << step;
    rule.verified(length, accepted, joined);
    left -= joined;
    off += rule.length() == 0 ? 1 : 0;
    longest += rule.length() == WindowRule::kLongest ? 1 : 0;
  }
  EXPECT_GT(step, 500);
  EXPECT_GT(off, 100);
  EXPECT_GT(longest, 50);
}

// Drafts the text's true continuation, each token right with the chance of the moment, and says how sure it is.
class ScriptedDrafter final : public Drafter {
 public:
  explicit ScriptedDrafter(double seconds) : seconds_(seconds) {}

  std::string_view name() const override { return "scripted"; }
  bool free() const override { return seconds_ == 0; }
  double seconds(int32_t rows) const override { return measured || calls > 0 ? rows * seconds_ : 0; }
  int32_t lag(RequestId, std::span<const Token>) const override { return behind; }
  Status draft(std::span<DraftTask> tasks, DraftGate gate, double) override {
    ++calls;
    if (throws) throw std::runtime_error("injected");
    if (fails) return Error{ErrorKind::internal, "injected", "", ""};
    std::vector<bool> done(tasks.size());
    for (int32_t i = 0; i < kMaxDraft; ++i) {  // one token of all before the next of any, as a model does
      for (size_t t = 0; t < tasks.size(); ++t) {
        if (done[t] || i >= tasks[t].length) continue;
        ++computed;
        const bool sure = honest && unit_(random_) < chance;
        const Verdict verdict = gate(t, i, honest ? (sure ? kConfidences - 1 : 0) : kConfidences / 2);
        done[t] = verdict != Verdict::more;
        if (verdict == Verdict::drop) continue;
        const bool right = honest ? sure : unit_(random_) < chance;
        tasks[t].draft->add(right ? 1 : 2, honest ? (sure ? kConfidences - 1 : 0) : kConfidences / 2);
      }
    }
    return {};
  }
  void forget(RequestId) override {}
  bool give_back() override { return gave_back = true; }

  double chance = 0;
  bool honest = false;   // knows beforehand whether it will be right
  bool measured = true;  // its costs are known before it ran
  int32_t behind = 1;    // tokens of each sequence that it has not read
  bool throws = false, fails = false, gave_back = false;
  int64_t calls = 0, computed = 0;

 private:
  const double seconds_;
  std::mt19937 random_{5};
  std::uniform_real_distribution<double> unit_{0, 1};
};

// Runs sequences whose right token is always 1 on a machine where a step costs `cost(rows)`.
struct Machine {
  explicit Machine(double draft_seconds, int32_t sequences = 1, const char* rule = "auto") : states(sequences) {
    auto owned = std::make_unique<ScriptedDrafter>(draft_seconds);
    drafter = owned.get();
    drafting = std::make_unique<Drafting>(std::move(owned), 1000);
    for (DraftState& state : states) state.rule = *parse_speculation(rule);
  }

  double step(double surprise) {
    const int64_t computed = drafter->computed;
    std::vector<DraftSeat> seats;
    for (size_t s = 0; s < states.size(); ++s) seats.push_back({s, text, &sampler, &states[s], 1000});
    const auto rows = static_cast<int32_t>(states.size());
    drafting->propose(seats, rows, 1000, [&](int32_t n) { return price(n); });
    int32_t drafts = 0;
    for (const DraftState& state : states) drafts += static_cast<int32_t>(state.draft.tokens.size());
    const double spent = take(rows + drafts) + static_cast<double>(drafter->computed - computed) * drafter->seconds(1);
    for (const DraftSeat& seat : seats) {
      std::vector<Token> chosen;
      for (const Token token : seat.state->draft.tokens) {
        chosen.push_back(1);
        if (token != 1) break;
      }
      if (chosen.size() == seat.state->draft.tokens.size()) {
        if (chosen.empty() || seat.state->draft.tokens.back() == 1) chosen.push_back(1);
      }
      seat.state->surprise.add(surprise);
      drafting->verified(seat, chosen, spent);
      tokens += static_cast<double>(chosen.size());
    }
    seconds += spent;
    return spent;
  }
  // Of a step as the controller sees it, and as it is.
  double price(int32_t rows) const { return measured ? measured->seconds(rows, kContext).value_or(0) : cost(rows); }
  double take(int32_t rows) {
    double taken = cost(rows);
    if (rows > static_cast<int32_t>(states.size()) && slow_steps-- > 0) taken *= 20;
    if (measured) measured->observe(rows, kContext, taken);
    return taken;
  }
  // From now on it knows what it has seen: prompts, and a step without drafts.
  void measure() {
    measured.emplace();
    for (const int32_t rows : {512, static_cast<int32_t>(states.size())}) measured->observe(rows, kContext, cost(rows));
  }
  void run(double until_tokens, double surprise = 1) {
    while (tokens < until_tokens) step(surprise);
  }
  double rate() const { return tokens / seconds; }

  ScriptedDrafter* drafter;
  std::unique_ptr<Drafting> drafting;
  std::vector<DraftState> states;
  const std::vector<Token> text{1, 1, 1};
  const Sampler sampler{SamplingParameters{.temperature = 0}, 1};
  double tokens = 0, seconds = 0;
  static constexpr int32_t kContext = 100;
  std::optional<CostTable> measured;
  int64_t slow_steps = 0;  // with drafts, that take twenty times as long as those that follow
  std::function<double(int32_t)> cost = [](int32_t rows) {
    return rows <= 4 ? 1 + 0.02 * (rows - 1) : 1.06 + 0.1 * (rows - 4);
  };
};

double rate_of(double draft_seconds, double chance, const std::string& rule, int32_t sequences = 1) {
  Machine machine(draft_seconds, sequences, rule.c_str());
  machine.drafter->chance = chance;
  machine.run(2000);
  return machine.rate();
}

TEST(AutoController, IsWithinAFewPercentOfTheBestFixedLengthWhicheverThatIs) {
  for (const double chance : {0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98}) {
    double best = rate_of(0.09, chance, "off");
    for (int k = 1; k <= kMaxDraft; ++k) best = std::max(best, rate_of(0.09, chance, "fixed:" + std::to_string(k)));
    EXPECT_GT(rate_of(0.09, chance, "auto"), 0.95 * best) << chance;
  }
}

// Where kernels take rows by the half dozen, the first row of the next half dozen is dear and those behind it are not.
TEST(AutoController, GoesOverADearRowToCheapOnes) {
  const auto rate = [](const std::string& rule) {
    Machine machine(0.05, 1, rule.c_str());
    machine.cost = [](int32_t rows) { return 1 + (rows - 1) / 6 * 0.9; };
    machine.drafter->chance = 0.98;
    machine.run(2000);
    return machine.rate();
  };
  double best = 0;
  for (int k = 1; k <= kMaxDraft; ++k) best = std::max(best, rate("fixed:" + std::to_string(k)));
  EXPECT_GT(rate("auto"), 0.95 * best);
}

// Sixteen sequences fill the first sixteen rows; the next sixteen cost a little less than half of them, the first as
// much as all.
TEST(AutoController, SequencesShareThePriceOfADearRow) {
  const auto rate = [](const std::string& rule, double chance) {
    Machine machine(0.02, 16, rule.c_str());
    machine.cost = [](int32_t rows) { return 1 + (rows - 1) / 16 * 0.4; };
    machine.drafter->chance = chance;
    machine.run(40000);
    return machine.rate();
  };
  for (const double chance : {0.6, 0.8, 0.98}) {
    double best = rate("off", chance);
    for (int k = 1; k <= kMaxDraft; ++k) best = std::max(best, rate("fixed:" + std::to_string(k), chance));
    EXPECT_GT(rate("auto", chance), 0.94 * best) << chance;  // its first 64 steps draft nothing
  }
}

// The plan counts on all sixteen; where the drafter turns out to be sure of a few only, those cannot pay for the row.
TEST(AutoController, LeavesADearRowThatTooFewAreLeftToShare) {
  const auto rate = [](const char* rule, double chance) {
    Machine machine(0.002, 16, rule);
    machine.cost = [](int32_t rows) { return 1 + (rows - 1) / 16 * 0.4; };
    machine.drafter->honest = true;
    machine.drafter->chance = chance;
    machine.run(20000);
    return machine.rate();
  };
  for (const auto& [chance, gain] : {std::pair{0.1, 0.99}, {0.3, 0.99}, {0.4, 1.13}, {0.5, 1.25}, {0.6, 1.37}})
    EXPECT_GT(rate("auto", chance), gain * rate("off", chance)) << chance;
}

// The rare token that is worth its verification bears the price of those that were drafted and dropped.
TEST(AutoController, CountsWhatDroppedTokensCost) {
  const auto rate = [](const char* rule) {
    Machine machine(0.03, 4, rule);
    machine.drafter->honest = true;
    machine.drafter->chance = 0.1;
    machine.run(12000);
    return machine.rate();
  };
  EXPECT_GT(rate("auto"), 0.985 * rate("off"));
}

// As where the pages of a new shape come in with it.
TEST(AutoController, SlowFirstStepsDoNotSwitchDraftsOffForGood) {
  const auto rate = [](double draft_seconds, int32_t sequences, int32_t slow_steps) {
    Machine machine(draft_seconds, sequences);
    machine.cost = [](int32_t rows) { return 1 + 0.01 * rows; };
    machine.drafter->chance = 0.9;
    machine.slow_steps = slow_steps;
    machine.measure();
    machine.run(1000 * sequences);
    machine.tokens = machine.seconds = 0;
    machine.run(500 * sequences);
    return machine.rate();
  };
  for (const double draft_seconds : {0.0, 0.01})
    for (const int32_t sequences : {1, 4, 16})
      for (const int32_t slow_steps : {1, 3})
        EXPECT_GT(rate(draft_seconds, sequences, slow_steps), 0.9 * rate(draft_seconds, sequences, 0))
            << draft_seconds << " " << sequences << " " << slow_steps;
}

// Were the one step that measured it believed, useless drafts would look free beside it.
TEST(AutoController, ASlowStepWithoutDraftsDoesNotKeepThemOnForGood) {
  Machine machine(0.09);
  machine.measured.emplace();
  machine.measured->observe(512, Machine::kContext, machine.cost(512));
  machine.measured->observe(1, Machine::kContext, 3 * machine.cost(1));
  machine.run(400);
  machine.tokens = machine.seconds = 0;
  machine.run(1000);
  EXPECT_GT(machine.rate(), 0.98);
}

TEST(AutoController, ReadsNoLongPromptForAFewTokensThatAreLeft) {
  Machine machine(0.09);
  machine.drafter->behind = 100;
  const auto drafts = [&](int32_t room) {
    const DraftSeat seat{0, machine.text, &machine.sampler, &machine.states[0], room};
    machine.drafting->propose({&seat, 1}, 1, 100, [](int32_t rows) { return 1 + 0.02 * rows; });
    return machine.states[0].draft.tokens.size();
  };
  EXPECT_EQ(drafts(4), 0u);
  EXPECT_GT(drafts(100), 0u);
}

TEST(AutoController, ProbesOfManySequencesTogetherStayWithinOnePercent) {
  const auto rate = [](const char* rule) {
    Machine machine(0.09, 16, rule);
    machine.run(100000);
    return machine.rate();
  };
  EXPECT_GT(rate("auto"), 0.988 * rate("off"));
}

TEST(AutoController, FindsOutOnOneSequenceWhatDraftingCosts) {
  Machine machine(0.09, 4);
  machine.cost = [](int32_t rows) { return 1 + 0.01 * rows; };
  machine.drafter->measured = false;
  machine.drafter->chance = 1;
  machine.step(0.1);
  EXPECT_TRUE(std::count_if(machine.states.begin(), machine.states.end(),
                            [](const DraftState& state) { return !state.draft.tokens.empty(); }) == 1);
  machine.step(0.1);
  EXPECT_TRUE(std::all_of(machine.states.begin(), machine.states.end(),
                          [](const DraftState& state) { return !state.draft.tokens.empty(); }));
}

TEST(AutoController, NeverLosesTwoPercentEvenInAFullBatch) {
  for (const double chance : {0.0, 0.05, 0.8})
    for (const int32_t sequences : {1, 4, 16})
      EXPECT_GT(rate_of(0.09, chance, "auto", sequences), 0.98 * rate_of(0.09, chance, "off", sequences))
          << chance << " " << sequences;
}

TEST(AutoController, FollowsATextThatChangesBetterThanEveryFixedLength) {
  const auto mixed = [](const std::string& rule) {
    Machine machine(0.09, 1, rule.c_str());
    for (int part = 0; part < 20; ++part) {
      const bool predictable = part % 2 == 0;
      machine.drafter->chance = predictable ? 0.97 : 0.1;
      machine.run((part + 1) * 150, predictable ? 0.05 : 2.5);
    }
    return machine.rate();
  };
  const double automatic = mixed("auto");
  EXPECT_GT(automatic, mixed("off"));
  for (int k = 1; k <= kMaxDraft; ++k) EXPECT_GT(automatic, mixed("fixed:" + std::to_string(k))) << k;
}

TEST(AutoController, StopsADraftWhereTheDrafterIsUnsure) {
  Machine machine(0.02);
  machine.drafter->honest = true;
  machine.drafter->chance = 0.7;
  machine.run(3000);
  const DraftCounts& drafts = machine.drafting->stats().drafts;
  EXPECT_GT(static_cast<double>(drafts.accepted_tokens()), 0.95 * static_cast<double>(drafts.drafted_tokens()));
  EXPECT_GT(machine.rate(), 2);
}

TEST(AutoController, ProbesOneStepInSixtyFourOnly) {
  Machine machine(0.09);
  machine.run(1000);  // settles on drafting nothing
  const int64_t before = machine.drafter->calls;
  machine.run(1000 + 640);
  EXPECT_LE(machine.drafter->calls - before, 10);
  EXPECT_GE(machine.drafter->calls - before, 8);
  EXPECT_GT(machine.drafting->stats().drafts.off_seconds, 500);
}

// Each answer is a sequence of its own, shorter than the pause between two probes.
TEST(AutoController, ProbesShortAnswersToo) {
  Machine machine(0.09);
  const auto answers = [&](int count, double chance) {
    machine.drafter->chance = chance;
    for (int i = 0; i < count * 48; ++i) {
      if (i % 48 == 0) machine.states[0] = {.rule = machine.states[0].rule};
      machine.step(1);
    }
    return machine.drafting->stats().drafts.accepted_tokens();
  };
  EXPECT_EQ(answers(20, 0), 0);
  EXPECT_GT(answers(40, 1), 1000);
}

TEST(AutoController, DoesNotProbeWhatCostsMoreThanOnePercent) {
  Machine machine(0.9);
  machine.run(1000);
  const int64_t before = machine.drafter->calls;
  machine.run(2000);
  EXPECT_EQ(machine.drafter->calls, before);
}

TEST(WindowController, LosesLittleToADrafterThatIsNeverRight) {
  EXPECT_GT(rate_of(0.09, 0, "window"), 0.92 * rate_of(0.09, 0, "off"));
  EXPECT_GT(rate_of(0.09, 0.9, "window"), 2 * rate_of(0.09, 0.9, "off"));
}

TEST(Drafting, CountsByPosition) {
  Machine machine(0.09, 1, "fixed:3");
  machine.drafter->chance = 1;
  machine.cost = [](int32_t rows) { return 100.0 + 7 * rows; };  // beside which drafting itself takes no time
  for (int i = 0; i < 5; ++i) machine.step(0);
  const SpeculationStats& stats = machine.drafting->stats();
  for (size_t j = 0; j < kMaxDraft; ++j) {
    EXPECT_EQ(stats.drafts.drafted[j], j < 3 ? 5 : 0);
    EXPECT_EQ(stats.drafts.accepted[j], j < 3 ? 5 : 0);
  }
  EXPECT_EQ(stats.decisions[3], 5u);
  EXPECT_NEAR(stats.saved_seconds, 15 * 107, 1e-6);
  EXPECT_NEAR(stats.price_seconds[3], 5 * 3 * 7, 5);
  EXPECT_NEAR(machine.states[0].price, 3 * 7, 1);
  EXPECT_EQ(std::accumulate(stats.price_seconds.begin(), stats.price_seconds.end(), 0.0), stats.price_seconds[3]);
}

TEST(DraftingFaults, ADrafterThatThrowsOrFailsIsLeftAloneForLongerAndLonger) {
  for (const bool throws : {true, false}) {
    Machine machine(0.09, 2, "fixed:4");
    (throws ? machine.drafter->throws : machine.drafter->fails) = true;
    for (int i = 0; i < 500; ++i) machine.step(0);
    EXPECT_EQ(machine.tokens, 1000) << "a token a step, as without";
    EXPECT_LT(machine.drafter->calls, 12);
    EXPECT_EQ(machine.drafting->stats().failures, static_cast<uint64_t>(machine.drafter->calls));
  }
}

class NonsenseDrafter final : public Drafter {
 public:
  std::string_view name() const override { return "nonsense"; }
  bool free() const override { return false; }
  Status draft(std::span<DraftTask> tasks, DraftGate, double) override {
    Draft& draft = *tasks[0].draft;
    switch (round++ % 6) {
      case 0:
        draft.add(-1, 3);
        break;
      case 1:
        draft.add(1000, 3);
        break;
      case 2:
        draft.add(5, 99);
        break;
      case 3:
        draft.tokens.assign(100, 5);
        break;
      case 4:
        draft.add(5, 3, {{4, 0.5f}, {6, 0.5f}});
        break;
      case 5:
        for (int i = 0; i < 100; ++i) draft.add(5, 3);
        break;
    }
    return {};
  }
  void forget(RequestId) override {}
  int round = 0;
};

TEST(DraftingFaults, NonsenseIsCutBeforeAnybodySeesIt) {
  Drafting drafting(std::make_unique<NonsenseDrafter>(), 1000);
  DraftState state;
  state.rule = *parse_speculation("fixed:4");
  const std::vector<Token> text{1, 2};
  const Sampler sampler({}, 1);
  const DraftSeat seat{1, text, &sampler, &state, 10};
  for (int round = 0; round < 6; ++round) {
    drafting.propose({&seat, 1}, 1, 100, [](int32_t) { return 1.0; });
    EXPECT_EQ(state.draft.tokens.size(), round == 5 ? 4u : 0u) << round;
    EXPECT_EQ(state.draft.q.size(), state.draft.tokens.size());
  }
}

TEST(Drafting, NeverDraftsMoreThanThereIsRoomFor) {
  Machine machine(0.09, 1, "fixed:8");
  DraftSeat seat{1, machine.text, &machine.sampler, &machine.states[0], 2};
  machine.drafting->propose({&seat, 1}, 1, 100, [](int32_t) { return 1.0; });
  EXPECT_EQ(machine.states[0].draft.tokens.size(), 2u);
  seat.room = 0;
  machine.drafting->propose({&seat, 1}, 1, 100, [](int32_t) { return 1.0; });
  EXPECT_TRUE(machine.states[0].draft.tokens.empty());
}

}  // namespace
}  // namespace martlet
