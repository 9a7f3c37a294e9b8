#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>

#include "server/api_keys.h"
#include "server/fixture.h"
#include "server/json_body.h"
#include "server/origin.h"
#include "server/routes.h"

namespace martlet::server {
namespace {

namespace json = boost::json;

struct Bad {
  std::string body;
  const char* code;
  const char* param = nullptr;
};

void expect_refused(Fixture& f, const std::string& path, const std::vector<Bad>& cases) {
  for (const Bad& bad : cases) {
    const Answer a = f.post(path, bad.body);
    EXPECT_EQ(a.status, 400) << bad.body.substr(0, 200) << a.body;
    EXPECT_EQ(a.at("/error/code"), bad.code) << bad.body.substr(0, 200) << a.body;
    EXPECT_EQ(a.at("/error/type"), "invalid_request_error");
    if (bad.param) {
      EXPECT_EQ(a.at("/error/param"), bad.param) << bad.body.substr(0, 200) << a.body;
    }
  }
}

std::string text_with(const std::string& field) {
  return R"({"prompt":"a",)" + field + "}";
}
std::string chat_with(const std::string& field) {
  return R"({"messages":[{"role":"user","content":"a"}],)" + field + "}";
}

TEST(ServerFaults, B2_InvalidUtf8) {
  Fixture f;
  expect_refused(f, "/v1/completions",
                 {{"{\"prompt\":\"\xff\"}", "invalid_utf8"},
                  {"{\"prompt\":\"\xc0\xaf\"}", "invalid_utf8"},
                  {R"({"prompt":"\ud800"})", "invalid_utf8"},
                  {R"({"prompt":"\ud800x"})", "invalid_utf8"},
                  {R"({"prompt":"\udc00"})", "invalid_utf8"},
                  {R"({"prompt":"\ud800\u0041"})", "invalid_utf8"}});
  const Answer a = f.post("/v1/completions", R"({"prompt":"a\u0000b"})");
  EXPECT_EQ(a.at("/choices/0/text"), json::value(std::string_view("a\0b", 3)));
}

TEST(ServerFaults, B3_TokenIds) {
  Fixture f;
  expect_refused(f, "/v1/completions",
                 {{R"({"prompt":[97,-1]})", "invalid_token_id", "prompt[1]"},
                  {R"({"prompt":[258]})", "invalid_token_id"},
                  {R"({"prompt":[2147483648]})", "invalid_token_id"},
                  {R"({"prompt":[1.5]})", "invalid_token_id"},
                  {R"({"prompt":[97,"a"]})", "invalid_token_id"},
                  {text_with(R"("stop_token_ids":[258])"), "invalid_token_id", "stop_token_ids"},
                  {text_with(R"("logit_bias":{"258":1})"), "invalid_token_id", "logit_bias"},
                  {text_with(R"("logit_bias":{"x":1})"), "invalid_token_id", "logit_bias"},
                  {text_with(R"("logit_bias":{"05":1})"), "invalid_token_id", "logit_bias"}});
  expect_refused(f, "/detokenize", {{R"({"tokens":[-1]})", "invalid_token_id", "tokens[0]"}});
}

TEST(ServerFaults, B4_ContentNeverBecomesAControlToken) {
  Fixture f;
  const Answer a = f.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"<begin><end>"}]})");
  EXPECT_EQ(a.at("/choices/0/message/content"), "<begin><end>");
  EXPECT_EQ(a.at("/usage/prompt_tokens"), 13);
}

TEST(ServerFaults, B5_EventsAreWholeUtf8) {
  Fixture f;
  const Answer a = f.post("/v1/completions", R"({"prompt":"a€b","max_tokens":2,"stream":true})");
  EXPECT_NE(a.body.find("\xEF\xBF\xBD"), a.body.npos);  // only the end shows that a character was cut
  const Answer whole = f.post("/v1/completions", R"({"prompt":"a€b","stream":true})");
  EXPECT_EQ(whole.body.find("\xEF\xBF\xBD"), whole.body.npos);
}

TEST(ServerFaults, B8_TemplateArgumentsNeedOptIn) {
  Fixture f;
  expect_refused(f, "/v1/chat/completions",
                 {{chat_with(R"("chat_template_kwargs":{"x":1})"), "unsupported_parameter", "chat_template_kwargs"},
                  {chat_with(R"("chat_template":"x")"), "unsupported_parameter", "chat_template"}});
  ServerOptions options;
  options.policy.template_kwargs = true;
  Fixture allowed(options);
  EXPECT_EQ(allowed.post("/v1/chat/completions", chat_with(R"("chat_template_kwargs":{"x":1})")).status, 200);
  // Not even then may it name what the server itself gives to the template.
  expect_refused(allowed, "/v1/chat/completions",
                 {{chat_with(R"("chat_template_kwargs":{"messages":[]})"), "unsupported_parameter",
                   "chat_template_kwargs.messages"},
                  {chat_with(R"("chat_template_kwargs":{"bos_token":"x"})"), "unsupported_parameter",
                   "chat_template_kwargs.bos_token"}});
}

TEST(ServerFaults, LongNamesOfUnknownFieldsAreCutBetweenCharacters) {
  Fixture f;
  for (const size_t odd : {0, 1, 2}) {
    std::string name(odd, 'x'), euros;
    for (int i = 0; i < 50; ++i) name += "\u20ac";
    for (size_t i = 0; i < (100 - odd) / 3; ++i) euros += "\u20ac";
    const std::string shown = std::string(odd, 'x') + euros;
    expect_refused(f, "/v1/completions",
                   {{R"({"prompt":"a",")" + name + R"(":1})", "unsupported_parameter", shown.c_str()}});
  }
}

TEST(ServerFaults, B10_Messages) {
  Fixture f;
  expect_refused(f, "/v1/chat/completions",
                 {{R"({"messages":[]})", "invalid_value", "messages"},
                  {R"({"messages":null})", "invalid_value", "messages"},
                  {R"({})", "invalid_value", "messages"},
                  {R"({"messages":[null]})", "invalid_value", "messages[0].role"},
                  {R"({"messages":[{"role":"user","content":"a"},{"role":"wizard","content":"a"}]})", "invalid_value",
                   "messages[1].role"},
                  {R"({"messages":[{"role":null,"content":"a"}]})", "invalid_value", "messages[0].role"},
                  {R"({"messages":[{"role":"tool","content":"a"}]})", "unsupported_parameter", "messages[0].role"},
                  {R"({"messages":[{"role":"user"}]})", "invalid_value", "messages[0].content"},
                  {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]})",
                   "unsupported_parameter", "messages[0].content[0].type"}});
  std::string many = R"({"max_tokens":1,"messages":[)";
  for (int i = 0; i < 10000; ++i) many += std::string(i ? "," : "") + R"({"role":"user","content":""})";
  // A slow machine may need longer for the template than a template is given.
  const Answer ten_thousand = f.post("/v1/chat/completions", many + "]}");
  EXPECT_TRUE(ten_thousand.status == 200 || ten_thousand.at("/error/code") == "template_limit") << ten_thousand.body;
}

TEST(ServerFaults, D1_Depth) {
  Fixture f;
  for (const size_t depth : {size_t{64}, size_t{100000}}) {
    expect_refused(f, "/v1/completions",
                   {{R"({"prompt":)" + std::string(depth, '[') + std::string(depth, ']') + "}", "json_too_deep"}});
  }
  const std::string fits = R"({"prompt":)" + std::string(63, '[') + std::string(63, ']') + "}";
  EXPECT_NE(f.post("/v1/completions", fits).at("/error/code"), "json_too_deep");
}

TEST(ServerFaults, D2_Json) {
  Fixture f;
  for (const char* body :
       {R"({"prompt":"a")", R"({"prompt":"a","prompt":"b"})", R"({"prompt":"a","x":{"y":1,"\u0079":2}})",
        R"({"temperature":NaN})", R"({"temperature":1e400})", R"({"temperature":-1e400})", R"({"prompt":"a"} x)",
        R"({"prompt":"a"}{)", "[]", "1", "{\"prompt\":\"a\",}", "\n"}) {
    const Answer a = f.post("/v1/completions", body);
    EXPECT_EQ(a.status, 400) << body;
    EXPECT_EQ(a.at("/error/code"), "invalid_json") << body;
    EXPECT_NE(a.body.find("offset "), a.body.npos) << body;
  }
  EXPECT_EQ(f.post("/v1/completions", "", "Content-Type: application/json\r\n").at("/error/code"), "invalid_json");
}

TEST(ServerFaults, D3_Ranges) {
  Fixture f;
  std::vector<Bad> cases;
  for (const char* value : {"-2", "0", "1e18", "\"5\"", "1.5", "1000000000000000000"}) {
    cases.push_back({text_with(R"("max_tokens":)" + std::string(value)), "invalid_value", "max_tokens"});
  }
  for (const char* name : {"n", "logprobs"}) {
    cases.push_back({text_with("\"" + std::string(name) + "\":1000000"), "invalid_value", name});
  }
  std::string stops = R"("stop":[)";
  for (int i = 0; i < 100000; ++i) stops += i ? ",\"x\"" : "\"x\"";
  cases.push_back({text_with(stops + "]"), "invalid_value", "stop"});
  cases.push_back({text_with(R"("temperature":-1)"), "invalid_value", "temperature"});
  cases.push_back({text_with(R"("n_discard":-1)"), "unsupported_parameter", "n_discard"});
  cases.push_back({text_with(R"("stop":"")"), "invalid_value", "stop"});
  for (const char* value : {"5", "\"fixed:17\"", "\"always\"", "\"\""})
    cases.push_back({text_with(R"("speculation":)" + std::string(value)), "invalid_value", "speculation"});
  cases.push_back({text_with(R"("stream":1)"), "invalid_value", "stream"});
  cases.push_back({text_with(R"("suffix":"x")"), "unsupported_parameter", "suffix"});
  cases.push_back({text_with(R"("stream_options":{"include_usage":true})"), "invalid_value", "stream_options"});
  expect_refused(f, "/v1/completions", cases);
  expect_refused(
      f, "/v1/chat/completions",
      {{chat_with(R"("top_logprobs":1000000,"logprobs":true)"), "invalid_value", "top_logprobs"},
       {chat_with(R"("top_logprobs":1)"), "invalid_value", "top_logprobs"},
       {chat_with(R"("tools":[{"type":"function"}])"), "unsupported_parameter", "tools"},
       {chat_with(R"("response_format":{"type":"json_object"})"), "unsupported_parameter", "response_format"},
       {chat_with(R"("store":true)"), "unsupported_parameter", "store"},
       {chat_with(R"("prompt":"x")"), "unsupported_parameter", "prompt"}});
  EXPECT_EQ(f.post("/v1/chat/completions", chat_with(R"("response_format":{"type":"text"},"store":false,"tools":null)"))
                .status,
            200);
}

TEST(ServerFaults, D4_EmptyPromptAndLongPrompt) {
  Fixture f;
  expect_refused(f, "/v1/completions",
                 {{R"({"prompt":""})", "empty_prompt", "prompt"},
                  {R"({"prompt":[]})", "empty_prompt"},
                  {R"({"prompt":["a",""]})", "empty_prompt", "prompt[1]"},
                  {R"({"max_tokens":1})", "empty_prompt"},
                  {R"({"prompt":")" + std::string(4096, 'a') + "\"}", "context_length_exceeded", "prompt"}});
}

// Keys that share one value of std::hash (MurmurHash64A with a known seed): a hash table of them takes quadratic time.
// The two blocks of eight bytes differ, once the hash has mixed them, in the highest bit alone, which no multiplication
// moves: two in a row of the same kind leave the same state.
std::vector<std::string> colliding_keys(int groups) {
  const std::string a = "\xd6\xa8\x63\x34\xd7\x8e\xc8\xbb", b = "\xd6\xa8\x20\x4e\x72\x74\x70\x4a";
  std::vector<std::string> keys;
  for (uint32_t bits = 0; bits < 1u << groups; ++bits) {
    std::string& key = keys.emplace_back();
    for (int i = 0; i < groups; ++i) key += bits >> i & 1 ? b + b : a + a;
  }
  return keys;
}

TEST(ServerFaults, D2_KeysThatCollide) {
  const std::vector<std::string> keys = colliding_keys(14);
#ifdef __GLIBCXX__
  ASSERT_EQ(std::hash<std::string>()(keys[0]), std::hash<std::string>()(keys[9999]));
#endif
  std::string body = "{";
  for (const std::string& key : keys) body += (body.size() > 1 ? ",\"" : "\"") + key + "\":1";
  const clock_t began = std::clock();
  const auto parsed = parse_json_body(body + "}");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->size(), keys.size());
  EXPECT_LT(std::clock() - began, CLOCKS_PER_SEC);
  EXPECT_EQ(parse_json_body(body + ",\"" + keys[7] + "\":1}").error().code, "invalid_json");
}

TEST(ServerFaults, D2_TooManyValues) {
  const auto list = [](size_t count) {  // the object and the array are values too
    std::string body = R"({"x":[1)";
    for (size_t i = 3; i < count; ++i) body += ",1";
    return body + "]}";
  };
  EXPECT_TRUE(parse_json_body(list(1 << 20)));
  EXPECT_EQ(parse_json_body(list((1 << 20) + 1)).error().code, "json_too_large");
  std::string empty = R"({"x":[[])";
  for (int i = 0; i < 1 << 20; ++i) empty += i % 2 ? ",[]" : ",{}";
  EXPECT_EQ(parse_json_body(empty + "]}").error().code, "json_too_large");
}

TEST(ServerFaults, D3_TwoNamesOfOneField) {
  Fixture f;
  for (const char* same :
       {R"("max_tokens":null,"max_completion_tokens":2)", R"("max_tokens":2.0,"max_completion_tokens":2)",
        R"("max_completion_tokens":2,"max_tokens":null)"}) {
    const Answer a = f.post("/v1/chat/completions", chat_with(same));
    EXPECT_EQ(a.status, 200) << a.body;
    EXPECT_EQ(f.engine().last_request.max_tokens, 2);
  }
  expect_refused(
      f, "/v1/chat/completions",
      {{chat_with(R"("max_tokens":2,"max_completion_tokens":3)"), "invalid_value", "max_completion_tokens"},
       {chat_with(R"("max_completion_tokens":3,"max_tokens":2)"), "invalid_value", "max_tokens"},
       {chat_with(R"("max_tokens":null,"max_completion_tokens":0)"), "invalid_value", "max_completion_tokens"}});
}

TEST(ServerFaults, D5_HeadIsGetWithoutABody) {
  Fixture f;
  for (const auto& [path, status] : {std::pair("/health", "200"), std::pair("/nothing", "404")}) {
    Client c(f.port());
    c.send(std::string("HEAD ") + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    const std::string answer = c.receive();
    EXPECT_EQ(answer.substr(0, 12), std::string("HTTP/1.1 ") + status);
    EXPECT_NE(answer.find("content-length: "), answer.npos);
    EXPECT_EQ(answer.find("\r\n\r\n"), answer.size() - 4) << answer;
  }
  EXPECT_NE(f.post("/health", "{}").head.find("allow: GET, HEAD\r\n"), std::string::npos);
}

TEST(ServerFaults, D5_Routes) {
  Fixture f;
  EXPECT_EQ(f.get("/nothing").status, 404);
  const Answer a = f.get("/v1/completions");
  EXPECT_EQ(a.status, 405);
  EXPECT_NE(a.head.find("allow: POST\r\n"), a.head.npos);
  EXPECT_EQ(f.post("/health", "{}").status, 405);
  EXPECT_EQ(f.post("/v1/completions", "x=1", "Content-Type: application/x-www-form-urlencoded\r\n").status, 415);
  EXPECT_EQ(f.post("/v1/completions", "{}", "Content-Type: application/json\r\nContent-Encoding: gzip\r\n").status,
            415);
}

TEST(ServerFaults, D9_TooManyConnections) {
  ServerOptions options;
  options.http.max_connections = 2;
  Fixture f(options);
  Client a(f.port()), b(f.port());
  a.send("GET");
  b.send("GET");
  EXPECT_TRUE(eventually([&] {
    const Answer refused = f.get("/health");
    return refused.status == 503 && refused.head.find("retry-after: ") != refused.head.npos;
  }));
  a.close();
  EXPECT_TRUE(eventually([&] { return f.get("/health").status == 200; }));
}

TEST(ServerFaults, D8_SlowHeads) {
  ServerOptions options;
  options.http.head_timeout = std::chrono::milliseconds(100);
  Fixture f(options);
  Client slow(f.port());
  slow.send("GET / HTTP/1.1\r\n");
  EXPECT_EQ(parse_answer(slow.receive()).status, 408);
}

TEST(ServerFaults, D8_SlowBodies) {
  ServerOptions options;
  options.http.body_timeout = std::chrono::milliseconds(100);
  Fixture f(options);
  Client slow(f.port());
  const std::string request = request_bytes("POST", "/v1/completions", R"({"prompt":"abc","max_tokens":1})");
  slow.send(request.substr(0, request.size() - 8));
  EXPECT_EQ(parse_answer(slow.receive()).status, 408);
  EXPECT_EQ(f.get("/health").status, 200);
}

TEST(ServerFaults, D8_IdleConnectionsAreClosed) {
  ServerOptions options;
  options.http.idle_timeout = std::chrono::seconds(1);  // longer than this thread may be away between two requests
  Fixture f(options);
  Client idle(f.port(), 30);
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 2; ++i) {
    idle.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_NE(idle.receive("\"status\":\"ok\"").find("HTTP/1.1 200"), std::string::npos);
  }
  EXPECT_EQ(idle.receive().find("HTTP/1.1"), std::string::npos) << "no answer to nothing";
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
}

TEST(ServerFaults, D9_TooManyLargeBodies) {
  ServerOptions options;
  options.http.max_large_bodies = 2;
  Fixture f(options);
  const auto large = [&] { return f.post("/v1/completions", R"({"prompt":")" + std::string(100'000, 'a') + "\"}"); };
  ASSERT_EQ(large().status, 400);  // longer than the context, and read
  Client a(f.port()), b(f.port());
  for (Client* held : {&a, &b})
    held->send(request_bytes("POST", "/v1/completions", std::string(100'000, ' ')).substr(0, 400));
  Answer refused;
  ASSERT_TRUE(eventually([&] { return (refused = large()).status == 503; })) << refused.body;
  EXPECT_EQ(refused.at("/error/code"), "too_many_bodies");
  EXPECT_NE(refused.head.find("retry-after: "), refused.head.npos);
  EXPECT_EQ(f.post("/v1/completions", R"({"prompt":"a","max_tokens":1})").status, 200) << "a small one";
  a.close();
  EXPECT_TRUE(eventually([&] { return large().status == 400; }));
}

TEST(ServerFaults, D3_AnswersOfOneRequest) {
  Fixture f;
  const auto ask_for = [&](int prompts, int n) {
    std::string body = R"({"max_tokens":1,"n":)" + std::to_string(n) + R"(,"prompt":["a")";
    for (int i = 1; i < prompts; ++i) body += ",\"a\"";
    return body + "]}";
  };
  const Answer most = f.post("/v1/completions", ask_for(8, 16));
  ASSERT_EQ(most.status, 200) << most.body;
  EXPECT_EQ(most.at("/choices").as_array().size(), 128u);
  expect_refused(f, "/v1/completions",
                 {{ask_for(9, 16), "invalid_value", "prompt"},
                  {ask_for(129, 1), "invalid_value", "prompt"},
                  {ask_for(1, 17), "invalid_value", "n"}});
}

TEST(ServerFaults, D9_QueueFull) {
  Fixture f;
  f.engine().full = true;
  const Answer a = f.post("/v1/completions", R"({"prompt":"a"})");
  EXPECT_EQ(a.status, 429);
  EXPECT_NE(a.head.find("retry-after: "), a.head.npos);
}

TEST(ServerFaults, D10_ReaderThatStops) {
  ServerOptions options;
  options.http.write_timeout = std::chrono::milliseconds(300);
  Fixture f(options);
  Client stalled(f.port());
  stalled.send(
      request_bytes("POST", "/v1/completions", R"({"prompt":"a","stream":true,"ignore_eos":true,"logprobs":20})"));
  EXPECT_NE(stalled.receive("data: ").find("200 OK"), std::string::npos);
  EXPECT_TRUE(eventually([&] { return f.engine().stats().running == 0; }));
  EXPECT_EQ(f.get("/health").status, 200);
}

TEST(ServerFaults, D11_LeavingCancels) {
  Fixture f({}, std::chrono::milliseconds(5));
  for (const char* stream : {"true", "false"}) {
    Client leaver(f.port());
    leaver.send(request_bytes("POST", "/v1/completions",
                              R"({"prompt":"a","ignore_eos":true,"stream":)" + std::string(stream) + "}"));
    ASSERT_TRUE(eventually([&] { return f.engine().stats().running == 1; }));
    leaver.close();
    EXPECT_TRUE(eventually([&] { return f.engine().stats().running == 0; })) << stream;
  }
  EXPECT_EQ(f.engine().cancelled, 2);
}

// More bytes than are read ahead while an answer runs: the end of the connection lies behind them.
TEST(ServerFaults, D11_ResetBehindUnreadBytesCancels) {
  Fixture f({}, std::chrono::milliseconds(5));
  Client leaver(f.port());
  leaver.send(request_bytes("POST", "/v1/completions", R"({"prompt":"a","ignore_eos":true})"));
  ASSERT_TRUE(eventually([&] { return f.engine().stats().running == 1; }));
  leaver.send(std::string(100'000, 'x'));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  leaver.reset();
  EXPECT_TRUE(eventually([&] { return f.engine().stats().running == 0; }));
  EXPECT_EQ(f.engine().cancelled, 1);
}

TEST(ServerFaults, D15_Drain) {
  Fixture f({}, std::chrono::milliseconds(5));
  f.engine().held = true;
  Client endless(f.port()), ending(f.port());
  endless.send(request_bytes("POST", "/v1/completions", R"({"prompt":"a","ignore_eos":true,"stream":true})"));
  ending.send(request_bytes("POST", "/v1/completions", R"({"prompt":"abcdefghij","stream":true})"));
  // Neither goes on before all of this is seen.
  EXPECT_TRUE(eventually([&] { return f.engine().stats().running == 2; }));
  std::thread drain([&] { f.server().drain(2); });
  EXPECT_TRUE(eventually([&] { return f.get("/health").at("/status") == "draining"; }));
  EXPECT_EQ(f.post("/v1/completions", R"({"prompt":"a"})").status, 503);
  f.engine().held = false;
  const Answer finished = parse_answer(ending.receive()), cut = parse_answer(endless.receive());
  EXPECT_NE(finished.body.find("data: [DONE]"), finished.body.npos);
  EXPECT_EQ(cut.body.find("data: [DONE]"), cut.body.npos);
  EXPECT_NE(cut.body.find("data: {\"error\":{"), cut.body.npos);
  EXPECT_NE(cut.body.find("shutting_down"), cut.body.npos);
  drain.join();
}

TEST(ServerFaults, D15_LoadingIs503) {
  Fixture f({}, {}, false);
  const Answer health = f.get("/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(health.at("/status"), "loading");
  EXPECT_EQ(f.post("/v1/completions", R"({"prompt":"a"})").at("/error/code"), "loading");
}

TEST(ServerFaults, D13_HoldersOfDifferentKeysAreTenantsOfTheirOwn) {
  const auto tenant = [](std::vector<std::string> keys, const std::string& fields) {
    ServerOptions options;
    options.api_keys = std::move(keys);
    Fixture f(options);
    EXPECT_EQ(f.post("/v1/completions", R"({"prompt":"ab","max_tokens":1,"priority":-7})", fields).status, 200);
    EXPECT_EQ(f.engine().last_request.priority, -7);
    return f.engine().last_request.tenant;
  };
  EXPECT_EQ(tenant({}, ""), 0);
  EXPECT_EQ(tenant({"one"}, "Authorization: Bearer one\r\n"), 0);
  EXPECT_EQ(tenant({"one", "two"}, "Authorization: Bearer one\r\n"), 1);
  EXPECT_EQ(tenant({"one", "two"}, "Authorization: Bearer two\r\n"), 2);
}

TEST(ServerFaults, E1_EveryRouteNeedsTheKey) {
  ServerOptions options;
  options.api_keys = {"first-key", "second-key"};
  Fixture f(options);
  std::string same;
  for (const Route& route : routes()) {
    if (route.open) continue;
    for (const char* fields : {"", "Authorization: Bearer wrong\r\n", "Authorization: first-key\r\n",
                               "Authorization: Bearer first-kez\r\n", "Origin: http://evil.test\r\n"}) {
      const Answer a = ask(f.port(), route.method, route.path, route.json ? "{}" : "", fields);
      EXPECT_EQ(a.status, 401) << route.path << fields;
      if (same.empty()) same = a.head + a.body;
      EXPECT_EQ(a.head + a.body, same) << route.path << fields;
    }
  }
  EXPECT_EQ(f.get("/nothing").status, 401);
  EXPECT_EQ(f.get("/health").status, 200);
  for (const char* key : {"first-key", "second-key"}) {
    EXPECT_EQ(f.get("/v1/models", "Authorization: Bearer " + std::string(key) + "\r\n").status, 200);
    EXPECT_EQ(f.get("/v1/models", "Authorization: bEARER " + std::string(key) + "\r\n").status, 200);
  }
}

// Welch's t over interleaved samples: a wrong first byte and a wrong last byte take the same time.
// Student's t of the times that two wrong keys take to be refused.
double difference_in_time(const ApiKeys& keys, const std::string (&wrong)[2]) {
  double mean[2] = {}, square[2] = {};
  int count[2] = {};
  for (int i = 0; i < 200000; ++i) {
    const int which = (i * 2654435761u >> 7) & 1;
    const auto begin = std::chrono::steady_clock::now();
    const bool accepted = keys.accepts(wrong[which]);
    const double took = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_FALSE(accepted);
    if (took > 5000) continue;  // the scheduler's doing
    const double delta = took - mean[which];
    mean[which] += delta / ++count[which];
    square[which] += delta * (took - mean[which]);
  }
  const double error = std::sqrt(square[0] / count[0] / count[0] + square[1] / count[1] / count[1]);
  return std::fabs(mean[0] - mean[1]) / error;
}

TEST(ServerFaults, E2_ConstantTimeKeys) {
  const std::string key = "sk-0123456789abcdef0123456789abcdef0123456789abcdef";
  const ApiKeys keys({key});
  std::string wrong[2] = {key, key};
  wrong[0].front() ^= 1;
  wrong[1].back() ^= 1;
  // A key that gives itself away does so every time; a neighbour on the machine does not.
  double t = difference_in_time(keys, wrong);
  for (int again = 0; again < 3 && t >= 4.5; ++again) t = difference_in_time(keys, wrong);
  EXPECT_LT(t, 4.5);
  EXPECT_TRUE(keys.accepts(key));
}

TEST(ServerFaults, E3_HostAndOrigin) {
  Fixture f;
  const auto with_host = [&](const std::string& host) {
    Client client(f.port());
    client.send("GET /v1/models HTTP/1.1\r\nConnection: close\r\nHost: " + host + "\r\n\r\n");
    return parse_answer(client.receive());
  };
  for (const char* host :
       {"evil.test", "null", "evil.test:8080", "127.0.0.1.evil.test", "localhost.evil.test", "0x7f.1"}) {
    const Answer a = with_host(host);
    EXPECT_EQ(a.status, 403) << host;
    EXPECT_EQ(a.head.find("access-control"), a.head.npos);
  }
  for (const char* host : {"localhost", "LOCALHOST:1", "127.0.0.1:80", "127.9.9.9", "[::1]:80"}) {
    EXPECT_EQ(with_host(host).status, 200) << host;
  }
  for (const char* origin : {"http://evil.test", "null", "http://localhost.evil.test", "file://"}) {
    const Answer a = f.get("/v1/models", "Origin: " + std::string(origin) + "\r\n");
    EXPECT_EQ(a.status, 403) << origin;
    EXPECT_EQ(a.head.find("access-control"), a.head.npos);
  }
  EXPECT_EQ(f.get("/v1/models", "Origin: http://localhost:3000\r\n").status, 200);
  ServerOptions open;
  open.http.host = "0.0.0.0";
  open.http.port = 0;
  const auto refused = Server::start(open);
  ASSERT_FALSE(refused);
  EXPECT_EQ(exit_code(refused.error().kind), 2);
}

TEST(ServerFaults, E5_ModelNamesAreNoPaths) {
  Fixture f;
  for (const char* name :
       {"../x", "a/../../etc/passwd", "%2e%2e%2fx", "%2E", "..%5cx", "%2fetc%2fpasswd", "/etc/passwd", "a%", "a%00b"}) {
    EXPECT_EQ(f.get("/v1/models/" + std::string(name)).at("/error/code"), "invalid_path") << name;
  }
  for (const char* name : {"../x", "..\\\\x", "/etc/passwd"}) {
    EXPECT_EQ(f.post("/v1/completions", R"({"prompt":"a","model":")" + std::string(name) + "\"}").at("/error/code"),
              "invalid_path");
  }
  EXPECT_EQ(f.get("/v1/models/fa%6be").status, 200);
  EXPECT_EQ(f.get("/v1/models/v1..v2").status, 404) << "a name, if not one that is served";
}

TEST(ServerFaults, E8_ErrorsHoldNoUserBytes) {
  Fixture f;
  const std::string canary = "kanarienvogel";
  for (const std::string& body :
       {R"({"prompt":")" + canary + R"(","temperature":-1})", R"({"prompt":["a",{")" + canary + R"(":1}]})",
        R"({"messages":[{"role":")" + canary + R"("}]})", "{\"" + canary,
        R"({"model":")" + canary + R"(","prompt":"a"})"}) {
    for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
      const Answer a = f.post(path, body);
      EXPECT_GE(a.status, 400);
      EXPECT_EQ(a.at("/error/message").as_string().find(canary), json::string::npos) << a.body;
    }
  }
  EXPECT_EQ(f.get("/metrics").body.find(canary), std::string::npos);
}

}  // namespace
}  // namespace martlet::server
