#include "gateway/body.h"

#include <gtest/gtest.h>

#include "gateway/parity.h"

namespace martlet::gateway {
namespace {

TEST(Body, OneMemberIsWrittenAndEveryOtherByteKept) {
  EXPECT_EQ(with_member(R"({"a": 0.70, "model" : "x" ,"b":"\u00e4"})", "model", "\"y\""),
            R"({"a": 0.70, "model" : "y" ,"b":"\u00e4"})");
  EXPECT_EQ(with_member("{}", "model", "1"), R"({"model":1})");
  EXPECT_EQ(with_member(R"( { "a":{"model":2}})", "model", "1"), R"( {"model":1, "a":{"model":2}})");
  EXPECT_EQ(with_member(R"({"a":"}\"model\":3","mod\u0065l":[1,{"x":"]"}],"z":1})", "model", "1"),
            R"({"a":"}\"model\":3","mod\u0065l":1,"z":1})");
  EXPECT_EQ(with_member(R"({"model":null})", "model", "1"), R"({"model":1})");
  EXPECT_EQ(with_member_replaced(R"({"a":1})", "model", "1"), R"({"a":1})");
}

TEST(Body, FactsOfARequest) {
  const auto facts = inspect_request(R"({"model":"m","stream":true,"max_tokens":7,"messages":[{"content":"hi"}]})");
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->model, "m");
  EXPECT_TRUE(facts->stream);
  EXPECT_EQ(facts->answer_tokens, 7);
  EXPECT_EQ(facts->prompt_bytes, 18);
  const auto other = inspect_request(R"({"messages":[{"content":"hi"}]})");
  EXPECT_EQ(other->model, "default");
  EXPECT_EQ(other->prefix, facts->prefix);
}

TEST(Body, H4_NothingThatChoosesAnAddressPasses) {
  for (const char* body : {R"({"api_base":1})", R"({"x":[{"api_key":"k"}]})",
                           R"({"properties":{"properties":{"api_key":1}}})", R"({"api\u005fkey":1})"}) {
    const auto facts = inspect_request(body);
    ASSERT_FALSE(facts) << body;
    EXPECT_EQ(facts.error().code, "unsupported_parameter");
  }
  EXPECT_TRUE(inspect_request(R"({"tools":[{"parameters":{"properties":{"api_key":{"type":"string"}}}}]})"));
}

TEST(Body, FactsOfAnAnswer) {
  AnswerFacts facts;
  EXPECT_FALSE(inspect_answer("[]", facts));
  EXPECT_FALSE(inspect_answer("{", facts));
  EXPECT_TRUE(inspect_answer(R"({"error":null})", facts));
  EXPECT_FALSE(facts.error);
  EXPECT_TRUE(inspect_answer(R"({"error":{"message":"x"}})", facts));
  EXPECT_TRUE(facts.error);
  facts = {};
  EXPECT_TRUE(inspect_answer(R"({"usage":{"prompt_tokens":9,"completion_tokens_details":
      {"accepted_prediction_tokens":3,"rejected_prediction_tokens":5}}})",
                             facts));
  EXPECT_EQ(facts.prompt_tokens, 9);
  EXPECT_EQ(facts.drafted, 8);
  EXPECT_EQ(facts.accepted, 3);
  EXPECT_TRUE(
      inspect_answer(R"({"usage":{"completion_tokens_details":{"drafted_tokens":6,"accepted_tokens":2}}})", facts));
  EXPECT_EQ(facts.drafted, 6);
  EXPECT_EQ(facts.accepted, 2);
  EXPECT_TRUE(inspect_answer(R"({"timings":{"draft_n":10,"draft_n_accepted":4}})", facts));
  EXPECT_EQ(facts.drafted, 10);
}

TEST(Parity, NamesWhatDiffers) {
  const Fingerprint a = {{"vocabulary/0", "[1]"}, {"template/tokens/0", "12"}, {"template/tokens/1", "30"}};
  Fingerprint b = a;
  EXPECT_TRUE(differences(a, b).empty());
  b["template/tokens/0"] = "13";
  EXPECT_EQ(differences(a, b), std::vector<std::string>{"template"});
  b["vocabulary/0"] = "[2]";
  EXPECT_EQ(differences(a, b), (std::vector<std::string>{"template", "vocabulary"}));
  EXPECT_EQ(differences(a, {}), std::vector<std::string>{"unknown"});
  EXPECT_EQ(not_accepted({"template", "vocabulary"}, {"template"}), std::vector<std::string>{"vocabulary"});
  EXPECT_TRUE(not_accepted({"unknown"}, {"all"}).empty());
}

TEST(Parity, OneFirstTokenOfManyMayDiffer) {
  const Fingerprint a = {{"greedy/1", "x"}, {"greedy/2", "y"}};
  EXPECT_TRUE(differences(a, {{"greedy/1", "x"}, {"greedy/2", "z"}}).empty());
  EXPECT_EQ(differences(a, {{"greedy/1", "q"}, {"greedy/2", "z"}}), std::vector<std::string>{"greedy"});
}

TEST(Parity, AnAnswerThatGoesOnWhereAnotherEnded) {
  EXPECT_TRUE(stops_alike("stop|Paris.", "stop|Paris."));
  EXPECT_TRUE(stops_alike("stop|Paris.", "length|The capital is"));
  EXPECT_FALSE(stops_alike("stop|Paris.", "length|Paris.<|im_end|>\n<|im_start|>"));
  EXPECT_FALSE(stops_alike("length|Paris. And", "stop|Paris."));
}

}  // namespace
}  // namespace martlet::gateway
