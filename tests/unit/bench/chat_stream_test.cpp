#include "bench/chat_stream.h"

#include <gtest/gtest.h>

#include <vector>

namespace martlet::bench {
namespace {

std::string chunk(const std::string& text, const std::string& more = "") {
  return R"({"id":"c1","created":7,"choices":[{"index":0,"delta":{"content":")" + text +
         R"("},"finish_reason":null}])" + more + "}";
}

// All events, each a second after the one before it.
Measurement taken(const std::vector<std::string>& events) {
  Measurement m;
  ChatStream stream(m);
  double time = 0;
  for (const std::string& event : events) stream.take(event, ++time);
  stream.finish();
  return m;
}

TEST(ChatStream, TellsTextTimesAndCounts) {
  const Measurement m =
      taken({R"({"choices":[{"delta":{"role":"assistant"},"finish_reason":null}]})", chunk(""), chunk("one"),
             chunk(" two"), chunk(""), R"({"choices":[{"delta":{},"finish_reason":"length"}]})",
             R"({"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,)"
             R"("prompt_tokens_details":{"cached_tokens":2}}})",
             "[DONE]"});
  EXPECT_EQ(m.error, "");
  EXPECT_EQ(m.text, "one two");
  EXPECT_DOUBLE_EQ(m.first_token, 3);
  EXPECT_DOUBLE_EQ(m.last_token, 4);
  EXPECT_EQ(m.finish_reason, "length");
  EXPECT_EQ(m.prompt_tokens, 7);
  EXPECT_EQ(m.output_tokens, 3);
  EXPECT_EQ(m.cached_tokens, 2);
  EXPECT_EQ(taken({chunk("a"), chunk("b"), "[DONE]"}).output_tokens, 2) << "pieces, where nobody counts";
  EXPECT_EQ(taken({chunk(""), "[DONE]"}).error, "no text");
}

// What an event says must not depend on whether one like it was parsed before.
TEST(ChatStream, WhatLooksLikeAnEarlierEventIsReadAsIfItWereAlone) {
  const std::vector<std::string> events = {
      chunk("one"),
      chunk("null"),
      chunk(" it\\\"s \\n \\u00e9"),
      chunk("\xC3\xA9"),
      chunk("two", R"(,"usage":null)"),
      chunk("three", R"(,"usage":{"completion_tokens":9})"),
      R"({"id":"c1","created":7,"choices":[{"index":0,"delta":{"content":null},"finish_reason":null}]})",
      R"({"id":"c1","created":7,"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]})",
      R"({"id":"c1","created":7,"choices":[{"index":0,"delta":{"content":"y","role":"assistant"},"finish_reason":null}]})",
      R"({"id":"assistant","choices":[{"delta":{"content":"assistant"}}]})",
      R"({"id":"other","choices":[{"delta":{"content":"assistant"}}]})",
      R"({"id":"assistant","choices":[{"delta":{"content":"other"}}]})",
      chunk("one"),
  };
  for (const std::string& first : events) {
    for (const std::string& second : events) {
      const Measurement a = taken({first}), b = taken({second}), both = taken({first, second});
      EXPECT_EQ(both.text, a.text + b.text) << first << "\n" << second;
      EXPECT_EQ(both.finish_reason, b.finish_reason.empty() ? a.finish_reason : b.finish_reason);
    }
  }
}

TEST(ChatStream, WhatIsWrongEndsIt) {
  EXPECT_EQ(taken({"{"}).error, "an event is no JSON");
  EXPECT_EQ(taken({chunk("a"), chunk("b") + "}"}).error, "an event is no JSON");
  EXPECT_EQ(taken({chunk("a"), R"({"error":{"message":"x"}})"}).error, "the stream ended with an error");
  const std::string long_text(300'000, 'x');
  EXPECT_EQ(taken({chunk(long_text), chunk(long_text), chunk(long_text)}).error, "");
  EXPECT_EQ(taken({chunk(long_text), chunk(long_text), chunk(long_text), chunk(long_text)}).error,
            "the answer does not end");
}

}  // namespace
}  // namespace martlet::bench
