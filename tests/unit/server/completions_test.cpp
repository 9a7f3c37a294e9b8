#include "server/fixture.h"

namespace martlet::server {
namespace {

namespace json = boost::json;

// The data of the events of a stream.
std::vector<std::string> events(const std::string& body) {
  std::vector<std::string> out;
  for (size_t at = 0; (at = body.find("data: ", at)) != body.npos;) {
    const size_t end = body.find("\n\n", at);
    out.push_back(body.substr(at + 6, end - at - 6));
    at = end;
  }
  return out;
}

TEST(Completions, ChatAnswersWhole) {
  Fixture f;
  const Answer a = f.post("/v1/chat/completions", R"({"model":"fake","messages":[{"role":"user","content":"hello"}]})");
  ASSERT_EQ(a.status, 200) << a.body;
  EXPECT_EQ(a.at("/object"), "chat.completion");
  EXPECT_EQ(a.at("/choices/0/message/content"), "hello");
  EXPECT_EQ(a.at("/choices/0/finish_reason"), "stop");
  EXPECT_EQ(a.at("/usage/prompt_tokens"), 6);  // one BOS, not two
  EXPECT_EQ(a.at("/usage/completion_tokens"), 6);
  EXPECT_EQ(a.at("/usage/prompt_tokens_details/cached_tokens"), 3);
  EXPECT_EQ(a.at("/usage/prompt_tokens_details/cache_miss"), "differs");
}

TEST(Completions, ChatStreams) {
  Fixture f;
  const Answer a = f.post("/v1/chat/completions",
                          R"({"messages":[{"role":"user","content":"héllo"}],"stream":true,
                              "stream_options":{"include_usage":true,"include_obfuscation":false}})");
  ASSERT_EQ(a.status, 200);
  const auto all = events(a.body);
  ASSERT_GT(all.size(), 4u);
  EXPECT_EQ(json::parse(all.front()).at_pointer("/choices/0/delta/role"), "assistant");
  EXPECT_EQ(all.back(), "[DONE]");
  std::string text;
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    const json::value event = json::parse(all[i]);
    json::error_code ec;
    if (const json::value* content = event.find_pointer("/choices/0/delta/content", ec)) text += content->get_string();
  }
  EXPECT_EQ(text, "héllo");
  EXPECT_EQ(json::parse(all[all.size() - 2]).at_pointer("/usage/completion_tokens"), 7);
  EXPECT_EQ(json::parse(all[all.size() - 3]).at_pointer("/choices/0/finish_reason"), "stop");
}

TEST(Completions, TextPromptsOfEveryKind) {
  Fixture f;
  for (const auto& [prompt, expected] :
       std::vector<std::pair<std::string, std::vector<std::string>>>{{R"("ab")", {"ab"}},
                                                                     {R"(["ab","c"])", {"ab", "c"}},
                                                                     {"[257,97,98]", {"ab"}},
                                                                     {"[[257,97],[257,98]]", {"a", "b"}}}) {
    const Answer a = f.post("/v1/completions", R"({"prompt":)" + prompt + "}");
    ASSERT_EQ(a.status, 200) << a.body;
    ASSERT_EQ(a.at("/choices").as_array().size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(a.at("/choices/" + std::to_string(i) + "/text"), json::value(expected[i]));
      EXPECT_EQ(a.at("/choices/" + std::to_string(i) + "/index"), i);
    }
  }
}

TEST(Completions, LogprobsLieWhereTheirTextIs) {
  Fixture f;
  const Answer a = f.post("/v1/completions", R"({"prompt":"aé!","logprobs":2,"echo":true,"max_tokens":4})");
  ASSERT_EQ(a.status, 200) << a.body;
  EXPECT_EQ(a.at("/choices/0/text"), "aé!aé!");
  EXPECT_EQ(a.at("/choices/0/logprobs/token_ids"), json::parse("[257,97,195,169,33,97,195,169,33]"));
  EXPECT_EQ(a.at("/choices/0/logprobs/text_offset"), json::parse("[0,0,1,1,2,3,4,4,5]"));
  EXPECT_EQ(a.at("/choices/0/logprobs/token_logprobs/0"), nullptr);
  EXPECT_EQ(a.at("/choices/0/logprobs/token_logprobs/1"), -1.0);
  EXPECT_EQ(a.at("/choices/0/logprobs/bytes/2"), json::parse("[195]"));
  EXPECT_EQ(a.at("/choices/0/finish_reason"), "length");
}

TEST(Completions, ChatLogprobsHoldBytesAndAlternatives) {
  Fixture f;
  const Answer a = f.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"ab"}],"logprobs":true,
                          "top_logprobs":3})");
  ASSERT_EQ(a.status, 200) << a.body;
  EXPECT_EQ(a.at("/choices/0/logprobs/content").as_array().size(), 2u);
  EXPECT_EQ(a.at("/choices/0/logprobs/content/1/token"), "b");
  EXPECT_EQ(a.at("/choices/0/logprobs/content/1/bytes"), json::parse("[98]"));
  EXPECT_EQ(a.at("/choices/0/logprobs/content/1/top_logprobs").as_array().size(), 3u);
}

TEST(Completions, EchoAloneScoresNothing) {
  Fixture f;
  const Answer a = f.post("/v1/completions", R"({"prompt":"abc","echo":true,"max_tokens":0})");
  ASSERT_EQ(a.status, 200) << a.body;
  EXPECT_EQ(a.at("/choices/0/text"), "abc");
  EXPECT_EQ(a.at("/usage/completion_tokens"), 0);
}

TEST(Completions, StopStringsCutTextAndScores) {
  Fixture f;
  const Answer a = f.post("/v1/completions", R"({"prompt":"one STOP two","stop":["STOP"],"logprobs":0})");
  ASSERT_EQ(a.status, 200) << a.body;
  EXPECT_EQ(a.at("/choices/0/text"), "one ");
  EXPECT_EQ(a.at("/choices/0/finish_reason"), "stop");
  EXPECT_EQ(a.at("/choices/0/logprobs/tokens").as_array().size(), 4u);
  EXPECT_EQ(a.at("/usage/completion_tokens"), 8);
}

TEST(Completions, SeveralChoicesGetSeedsOfTheirOwn) {
  Fixture f;
  const Answer a = f.post("/v1/completions", R"({"prompt":"ab","n":3,"seed":7})");
  ASSERT_EQ(a.status, 200) << a.body;
  EXPECT_EQ(a.at("/choices").as_array().size(), 3u);
  EXPECT_EQ(a.at("/usage/prompt_tokens"), 3);
  EXPECT_EQ(a.at("/usage/completion_tokens"), 9);
  EXPECT_EQ(f.engine().last_request.sampling.seed, 9u);
}

TEST(Completions, ParametersReachTheEngine) {
  Fixture f;
  const Answer a = f.post("/v1/completions", R"({"prompt":"ab","temperature":0.5,"top_p":0.25,"top_k":7,"min_p":0.125,
      "typical_p":0.75,"repetition_penalty":1.5,"presence_penalty":-1,"frequency_penalty":2,"logit_bias":{"97":-100},
      "seed":-1,"stop_token_ids":[98],"ignore_eos":true,"max_tokens":5,"logprobs":1,"user":"someone"})");
  ASSERT_EQ(a.status, 200) << a.body;
  const Request& r = f.engine().last_request;
  EXPECT_EQ(r.sampling.temperature, 0.5f);
  EXPECT_EQ(r.sampling.top_p, 0.25f);
  EXPECT_EQ(r.sampling.top_k, 7);
  EXPECT_EQ(r.sampling.min_p, 0.125f);
  EXPECT_EQ(r.sampling.typical_p, 0.75f);
  EXPECT_EQ(r.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(r.sampling.presence_penalty, -1.0f);
  EXPECT_EQ(r.sampling.frequency_penalty, 2.0f);
  ASSERT_EQ(r.sampling.logit_bias.size(), 1u);
  EXPECT_EQ(r.sampling.logit_bias[0], (std::pair<Token, float>{97, -100.0f}));
  EXPECT_EQ(r.sampling.seed, ~uint64_t{0});
  EXPECT_EQ(r.stop_tokens, std::vector<Token>{98});
  EXPECT_EQ(r.max_tokens, 5);
  EXPECT_EQ(r.top_logprobs, 1);
}

TEST(Completions, TokenizeAndBack) {
  Fixture f;
  EXPECT_EQ(f.post("/tokenize", R"({"content":"a<end>"})").at("/tokens"), json::parse("[97,60,101,110,100,62]"));
  EXPECT_EQ(f.post("/tokenize", R"({"prompt":"a","add_special_tokens":true})").at("/tokens"), json::parse("[257,97]"));
  EXPECT_EQ(f.post("/detokenize", R"({"tokens":[97,0,256]})").at("/content"),
            json::value(std::string_view("a\0<end>", 7)));
}

TEST(Completions, ModelsAndMetrics) {
  Fixture f;
  EXPECT_EQ(f.get("/v1/models").at("/data/0/id"), "fake");
  EXPECT_EQ(f.get("/v1/models/fake").at("/object"), "model");
  EXPECT_EQ(f.get("/v1/models/default").at("/id"), "fake");
  EXPECT_EQ(f.get("/v1/models/other").status, 404);
  f.post("/v1/completions", R"({"prompt":"ab"})");
  const std::string text = f.get("/metrics").body;
  for (const char* line :
       {"martlet_http_requests_total{route=\"/v1/completions\",status=\"200\"} 1", "martlet_ttft_seconds_count 1",
        "martlet_tpot_seconds_count 1", "martlet_shape_compilations_total 0", "martlet_requests_running 0"}) {
    EXPECT_NE(text.find(line), text.npos) << line << "\n" << text;
  }
}

TEST(Completions, SpeculationReachesTheEngineAndComesBackInUsage) {
  Fixture f;
  const Answer a = f.post("/v1/completions", R"({"prompt":"ab","speculation":"fixed:3","n":2})");
  ASSERT_EQ(a.status, 200) << a.body;
  ASSERT_TRUE(f.engine().last_request.speculation);
  EXPECT_EQ(f.engine().last_request.speculation->length, 3);
  EXPECT_EQ(a.at("/usage/completion_tokens_details/drafted_tokens"), 14);
  EXPECT_EQ(a.at("/usage/completion_tokens_details/accepted_tokens"), 10);
  EXPECT_EQ(a.at("/usage/completion_tokens_details/drafted_by_position"), boost::json::parse("[8, 6]"));
  EXPECT_EQ(a.at("/usage/completion_tokens_details/accepted_by_position"), boost::json::parse("[8, 2]"));
  EXPECT_EQ(a.at("/usage/completion_tokens_details/draft_price_seconds"), 1.0);
  EXPECT_EQ(a.at("/usage/completion_tokens_details/drafting_off_seconds"), 0.5);
  const std::string text = f.get("/metrics").body;
  for (const char* line :
       {"martlet_draft_tokens_total{position=\"1\"} 0", "martlet_draft_accepted_total{position=\"8\"} 0",
        "martlet_draft_decisions_total{length=\"0\"} 0", "martlet_draft_price_seconds_total{length=\"16\"} 0",
        "martlet_draft_off_seconds_total 0"}) {
    EXPECT_NE(text.find(line), text.npos) << line << "\n" << text;
  }
}

TEST(Completions, SilenceIsFilledWithComments) {
  ServerOptions options;
  options.http.filler_interval = std::chrono::milliseconds(20);
  Fixture f(options, std::chrono::milliseconds(150));
  const Answer a = f.post("/v1/completions", R"({"prompt":"ab","stream":true})");
  EXPECT_NE(a.body.find(": waiting\n\n"), a.body.npos);
  EXPECT_EQ(events(a.body).back(), "[DONE]");
}

TEST(Completions, StreamsRunBesideEachOther) {
  Fixture f({}, std::chrono::milliseconds(2));
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 16; ++i) {
    clients.push_back(std::make_unique<Client>(f.port()));
    clients.back()->send(
        request_bytes("POST", "/v1/completions", R"({"prompt":")" + std::string(50 + i, 'a') + R"(","stream":true})"));
  }
  for (int i = 0; i < 16; ++i) {
    const Answer a = parse_answer(clients[i]->receive());
    EXPECT_EQ(a.status, 200);
    EXPECT_EQ(events(a.body).back(), "[DONE]");
    EXPECT_GE(events(a.body).size(), 50u + i);
  }
}

}  // namespace
}  // namespace martlet::server
