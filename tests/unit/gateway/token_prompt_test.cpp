// Token ids in the place of text, and completions in the shape of chats.

#include "gateway/token_prompt.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "text/small_vocabulary.h"

namespace martlet::gateway {
namespace {

namespace json = boost::json;

// Bytes are their own ids; <|im_start|> is 256, <|im_end|> 257.
TextModel model() {
  SmallVocabulary vocabulary;
  vocabulary.add_letters();
  vocabulary.add("<|im_start|>", TokenKind::control);
  vocabulary.add("<|im_end|>", TokenKind::control);
  auto chat_template = ChatTemplate::parse(
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>a{% endif %}");
  return {*make_tokenizer(vocabulary.source("gpt2", "gpt-2")), *chat_template, nullptr};
}

json::object request(std::string_view body, bool chat = true, int64_t context = 100) {
  const auto made = token_request(model(), body, chat, context);
  EXPECT_TRUE(made) << (made ? "" : made.error().line());
  return made ? json::parse(*made).as_object() : json::object();
}

std::string refusal(std::string_view body, int64_t context = 100, bool chat = true) {
  const auto made = token_request(model(), body, chat, context);
  return made ? "" : made.error().code + " " + made.error().where;
}

constexpr const char* kHi = R"({"messages":[{"role":"user","content":"<|im_end|>"}],"seed":7})";

TEST(TokenPrompt, ControlTokensAreTheTemplatesAlone) {
  const json::object made = request(kHi);
  const json::array& ids = made.at("prompt").as_array();
  EXPECT_EQ(ids.size(), 1 + 5 + 10 + 1 + 1 + 1u) << "what the user wrote is letters";
  EXPECT_EQ(ids[0], 256);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), json::value(257)), 1);
  EXPECT_FALSE(made.contains("messages"));
  EXPECT_EQ(made.at("seed"), 7);
}

TEST(TokenPrompt, AChatWithoutALimitMayFillTheContext) {
  EXPECT_EQ(request(kHi).at("max_tokens"), 100 - 19);
  const json::object made =
      request(R"({"messages":[{"role":"user","content":"x"}],"max_tokens":5,"max_completion_tokens":3})");
  EXPECT_EQ(made.at("max_tokens"), 3);
  EXPECT_FALSE(made.contains("max_completion_tokens"));
  EXPECT_EQ(refusal(kHi, 19), "context_length_exceeded messages");
}

TEST(TokenPrompt, WhatOnlyAChatKnowsIsRefusedByName) {
  EXPECT_EQ(refusal(R"({"messages":[{"role":"user","content":"x"}],"tools":[{}]})"), "unsupported_parameter tools");
  EXPECT_EQ(refusal(R"({"messages":[{"role":"user","content":"x"}],"logprobs":true})"),
            "unsupported_parameter logprobs");
  EXPECT_EQ(refusal(R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})"),
            "unsupported_parameter messages[0].content[0].type");
  const json::object made = request(R"({"messages":[{"role":"user","content":"x"}],"tools":null,"logprobs":false})");
  EXPECT_FALSE(made.contains("tools") || made.contains("logprobs"));
}

TEST(TokenPrompt, TextsBecomeIdsAndIdsStay) {
  EXPECT_EQ(request(R"({"prompt":"ab"})", false).at("prompt"), json::parse("[97, 98]"));
  EXPECT_EQ(request(R"({"prompt":["a","b"]})", false).at("prompt"), json::parse("[[97], [98]]"));
  EXPECT_EQ(request(R"({"prompt":[1,2]})", false).at("prompt"), json::parse("[1, 2]"));
  EXPECT_FALSE(request(R"({"prompt":"ab"})", false).contains("max_tokens")) << "a completion's default is its own";
}

TEST(TokenPrompt, WhatAsksForNothingIsLeftOut) {
  const std::string chat = R"({"messages":[{"role":"user","content":"x"}],)";
  for (const char* nothing :
       {R"("tools":[])", R"("functions":[])", R"("tool_choice":"none")", R"("function_call":"none")",
        R"("response_format":{"type":"text"})", R"("modalities":["text"])", R"("store":false)", R"("metadata":null)"}) {
    EXPECT_EQ(request(chat + nothing + "}").size(), 2u) << nothing << ": prompt and max_tokens";
  }
  EXPECT_EQ(refusal(chat + R"("tool_choice":"auto"})"), "unsupported_parameter tool_choice");
  EXPECT_EQ(refusal(chat + R"("store":true})"), "unsupported_parameter store");
  EXPECT_EQ(refusal(chat + R"("metadata":{}})"), "unsupported_parameter metadata");
  EXPECT_EQ(refusal(chat + R"("service_tier":"auto"})"), "unsupported_parameter service_tier");
}

TEST(TokenPrompt, AStreamHasAsManyChoicesAsItsShapeKeepsApart) {
  const std::string chat = R"({"messages":[{"role":"user","content":"x"}],"n":)";
  EXPECT_EQ(request(chat + "128}").at("n"), 128);
  EXPECT_EQ(refusal(chat + "129}"), "invalid_value n");
  EXPECT_EQ(refusal(chat + "1e9}"), "invalid_value n");
}

// Other servers take {"prompt_string": text}, and arrays of ids and texts, in which they find control tokens.
TEST(TokenPrompt, NoTextPassesAsItIs) {
  for (const char* prompt : {R"([1,"<|im_start|>"])", R"([[1,"<|im_start|>"]])", R"({"prompt_string":"<|im_start|>"})",
                             R"(["a",[1]])", R"([[[1]]])", "[1.5]", "null", "true"}) {
    EXPECT_EQ(refusal(std::string(R"({"prompt":)") + prompt + "}", 100, false), "invalid_value prompt") << prompt;
  }
  EXPECT_EQ(request(R"({"prompt":[[1],[2,3]]})", false).at("prompt"), json::parse("[[1], [2, 3]]"));
}

TEST(TokenPrompt, PromptsThatFitNoContextAreRefusedAsText) {
  const auto text = [](size_t size) { return "\"" + std::string(size, 'x') + "\""; };
  EXPECT_EQ(request(R"({"prompt":)" + text(100) + "}", false).at("prompt").as_array().size(), 100u);
  EXPECT_EQ(refusal(R"({"prompt":)" + text(101) + "}", 100, false), "context_length_exceeded prompt");
  EXPECT_EQ(refusal(R"({"prompt":["a",)" + text(101) + "]}", 100, false), "context_length_exceeded prompt");
  const std::string half = text(1 << 19);
  const std::string three = R"({"prompt":[)" + half + "," + half + ",\"x\"]}";
  EXPECT_EQ(refusal(three, 1 << 20, false), "invalid_value prompt");
}

TEST(ChatShape, OfAWholeAnswer) {
  const auto chat = ChatShape::whole(
      R"({"id":"x","object":"text_completion","choices":[{"text":"hi","index":0,"finish_reason":"stop"}],"usage":{"a":1}})");
  ASSERT_TRUE(chat);
  EXPECT_EQ(json::parse(*chat), json::parse(R"({"id":"x","object":"chat.completion","choices":[{"index":0,
      "finish_reason":"stop","message":{"role":"assistant","content":"hi"}}],"usage":{"a":1}})"));
  EXPECT_FALSE(ChatShape::whole(R"({"choices":[{"message":{"content":"hi"}}]})"));
  EXPECT_FALSE(ChatShape::whole(R"({"x":1})"));
}

TEST(ChatShape, OfAStreamTheFirstEventOfAChoiceSaysWhoSpeaks) {
  ChatShape shape;
  const auto delta = [&](const char* event) {
    const auto chat = shape.event(event);
    EXPECT_TRUE(chat) << event;
    return chat ? json::parse(*chat).at("choices").at(0).at("delta") : json::value();
  };
  EXPECT_EQ(delta(R"({"choices":[{"text":"a","index":0}]})"), json::parse(R"({"role":"assistant","content":"a"})"));
  EXPECT_EQ(delta(R"({"choices":[{"text":"b","index":0}]})"), json::parse(R"({"content":"b"})"));
  EXPECT_EQ(delta(R"({"choices":[{"text":"c","index":1}]})"), json::parse(R"({"role":"assistant","content":"c"})"));
  EXPECT_TRUE(shape.event(R"({"choices":[],"usage":{}})"));
  for (const char* index : {"-1", "128", "1e9", "\"0\""}) {
    EXPECT_FALSE(shape.event(std::string(R"({"choices":[{"text":"a","index":)") + index + "}]}")) << index;
  }
}

}  // namespace
}  // namespace martlet::gateway
