#include "bench/judge.h"

#include <gtest/gtest.h>

namespace martlet::bench {
namespace {

// Scores every token of the prompt but the first: those of `unlikely` lie 0.71 nat below the best, those of `near`
// 0.69.
class ScoringEngine : public Engine {
 public:
  Result<RequestId> submit(Request request, std::shared_ptr<RequestSink> sink) override {
    ++requests;
    EXPECT_TRUE(request.prompt_logprobs);
    EXPECT_EQ(request.max_tokens, 0);
    for (size_t i = 1; i < request.prompt.size(); ++i) {
      const Token token = request.prompt[i];
      const float below = token >= 200 ? 0.71f : token >= 100 ? 0.69f : 0.0f;
      sink->on_tokens(
          std::vector<Emitted>{{.token = token, .prompt = true, .logprob = -1 - below, .top = {{7, -1.0f}}}});
    }
    sink->on_finish({FinishReason::length, std::nullopt, {}});
    return RequestId{1};
  }
  void cancel(RequestId) override {}
  void drain(double) override {}
  void drop_prompt_cache() override {}
  EngineStats stats() const override { return {}; }
  const Plan& plan() const override { return plan_; }
  int32_t context() const override { return 120; }
  int32_t vocabulary() const override { return 300; }

  int requests = 0;

 private:
  Plan plan_;
};

// One token a byte: 'u' is unlikely, 'n' is near. The prompt's are unlikely, and must not count.
Result<Encoded> encode(const std::string& prompt, const std::string& answer) {
  Encoded out;
  out.tokens.assign(prompt.size(), 250);
  out.answer = prompt.size();
  for (const char c : answer) out.tokens.push_back(c == 'u' ? 200 : c == 'n' ? 100 : 1);
  return out;
}

TEST(Judge, CountsTokensOfTheAnswerWithinSevenTenthsOfANat) {
  ScoringEngine engine;
  Judge judge(engine, encode);
  const auto quality = judge.judge("ppp", "aaunaa");
  ASSERT_TRUE(quality);
  EXPECT_EQ(quality->tokens, 6);
  EXPECT_EQ(quality->good, 5);
  EXPECT_FALSE(quality->passed());
  EXPECT_TRUE(judge.judge("ppp", std::string(97, 'a') + "uuu")->passed());
  EXPECT_FALSE(judge.judge("ppp", std::string(96, 'a') + "uuuu")->passed());
  EXPECT_EQ(judge.judge("ppp", "")->tokens, 0);
  EXPECT_EQ(engine.requests, 3);
  EXPECT_EQ(judge.judge("ppp", std::string(500, 'a'))->tokens, 117) << "what fits in the context";
  EXPECT_EQ(engine.requests, 4);
  EXPECT_EQ(judge.judge("ppp", "aaunaa")->good, 5);
  ASSERT_TRUE(judge.prepare("ppp", "aaunaa"));
  EXPECT_EQ(engine.requests, 4) << "the same answer is judged once";
}

// An engine that answers nothing until it has three requests: the judge must not wait for the first of them.
class PatientEngine : public ScoringEngine {
 public:
  Result<RequestId> submit(Request request, std::shared_ptr<RequestSink> sink) override {
    waiting_.push_back([this, request, sink] { (void)ScoringEngine::submit(request, sink); });
    if (waiting_.size() == 3)
      for (const auto& answer : waiting_) answer();
    return RequestId{1};
  }

 private:
  std::vector<std::function<void()>> waiting_;
};

TEST(Judge, HandsInSeveralAnswersBeforeItWaits) {
  PatientEngine engine;
  Judge judge(engine, encode);
  std::vector<bench::Run> runs(3);
  const char* texts[] = {"a", "au", "auu"};
  for (size_t i = 0; i < runs.size(); ++i) {
    Measurement m;
    m.output_tokens = 1;
    m.text = texts[i];
    runs[i].requests = {m, m};
  }
  ASSERT_TRUE(judge_runs(
      runs, {"p"}, judge, [](size_t, size_t) {}, [] { return false; }));
  for (size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].quality->tokens, static_cast<int>(2 * (i + 1)));
    EXPECT_EQ(runs[i].quality->good, 2);
  }
}

// Two answers in each of three runs.
std::vector<bench::Run> three_runs() {
  Measurement m;
  m.output_tokens = 1;
  m.text = "a";
  std::vector<bench::Run> runs(3);
  for (bench::Run& run : runs) run.requests = {m, m};
  return runs;
}

TEST(Judge, ARunThatIsJudgedInPartHasNoQuality) {
  ScoringEngine engine;
  Judge judge(engine, encode);
  std::vector<bench::Run> runs = three_runs();
  size_t judged = 0;
  ASSERT_TRUE(judge_runs(
      runs, {"p"}, judge, [&](size_t, size_t) { ++judged; }, [&] { return judged == 3; }));
  ASSERT_TRUE(runs[0].quality);
  EXPECT_EQ(runs[0].quality->tokens, 2);
  EXPECT_FALSE(runs[1].quality) << "one of its two answers";
  EXPECT_FALSE(runs[2].quality);
}

TEST(Judge, AnErrorLeavesNoQualityOfWhatWasNotJudged) {
  ScoringEngine engine;
  int encoded = 0;
  Judge judge(engine, [&](const std::string& prompt, const std::string& answer) -> Result<Encoded> {
    if (++encoded > 3) return Error{ErrorKind::io, "broken", "", ""};
    return encode(prompt, answer);
  });
  std::vector<bench::Run> runs = three_runs();
  runs[0].requests[1].text = "b";
  runs[1].requests[0].text = "c";
  runs[1].requests[1].text = "d";
  EXPECT_FALSE(judge_runs(
      runs, {"p"}, judge, [](size_t, size_t) {}, [] { return false; }));
  for (const bench::Run& run : runs) EXPECT_FALSE(run.quality);
}

TEST(Judge, RunsGetTheSumOfTheirAnswers) {
  ScoringEngine engine;
  Judge judge(engine, encode);
  std::vector<bench::Run> runs(2);
  Measurement good, failed;
  good.output_tokens = 3;
  good.text = "aau";
  failed.error = "refused";
  runs[0].requests = {good, failed, good};
  size_t seen = 0;
  ASSERT_TRUE(judge_runs(
      runs, {"p"}, judge, [&](size_t, size_t total) { seen = total; }, [] { return false; }));
  EXPECT_EQ(seen, 2u) << "what failed is not judged";
  EXPECT_EQ(runs[0].quality->tokens, 6);
  EXPECT_EQ(runs[0].quality->good, 4);
  EXPECT_FALSE(runs[1].quality) << "nothing to judge";
}

}  // namespace
}  // namespace martlet::bench
