#include "gateway/answer.h"

#include <gtest/gtest.h>

#include "gateway/ask.h"

namespace martlet::gateway {
namespace {

constexpr std::string_view kInvalid = R"({"error":{"message":"damaged","code":"model_invalid"}})";
constexpr std::string_view kTooLong = R"({"error":{"message":"too long","code":"context_length_exceeded"}})";

TEST(Verdict, IsOfTheStatus) {
  EXPECT_EQ(verdict_of(200), Verdict::answer);
  for (const int status : {400, 413, 422}) EXPECT_EQ(verdict_of(status), Verdict::pass_on);
  for (const int status : {429, 503}) EXPECT_EQ(verdict_of(status), Verdict::busy);
  for (const int status : {401, 404}) EXPECT_EQ(verdict_of(status), Verdict::refuse);
  for (const int status : {0, 500, 502}) EXPECT_EQ(verdict_of(status), Verdict::fail);
}

TEST(Verdict, ADamagedModelIsNoFaultOfTheRequest) {
  EXPECT_EQ(verdict_of(400, "model_invalid"), Verdict::fail);
  EXPECT_EQ(verdict_of(400, "context_length_exceeded"), Verdict::pass_on);
  EXPECT_EQ(verdict_of(503, "model_invalid"), Verdict::busy) << "it may be loaded again";
}

TEST(Verdict, OfAnAnswerReadsItsError) {
  EXPECT_EQ(verdict_of(Asked{400, std::string(kInvalid)}), Verdict::fail);
  EXPECT_EQ(verdict_of(Asked{400, std::string(kTooLong)}), Verdict::pass_on);
  EXPECT_EQ(verdict_of(Asked{400, "no JSON"}), Verdict::pass_on);
  EXPECT_EQ(verdict_of(Asked()), Verdict::fail);
}

TEST(Refusal, HasTheUpstreamsWordsWhereTheyAreAnError) {
  AnswerFacts facts;
  ASSERT_TRUE(inspect_answer(kTooLong, facts));
  EXPECT_EQ(refusal_response(400, kTooLong, facts).body, kTooLong);
  const net::HttpResponse ours = refusal_response(422, "path: /srv/secret", {});
  EXPECT_EQ(ours.status, 422);
  EXPECT_EQ(ours.body.find("secret"), std::string::npos);
  EXPECT_NE(ours.body.find("upstream_refused_request"), std::string::npos);
}

}  // namespace
}  // namespace martlet::gateway
