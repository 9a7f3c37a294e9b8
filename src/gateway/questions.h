#pragma once

// What parity asks of upstreams, and of files: the same of all.

#include <initializer_list>
#include <utility>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

namespace martlet::gateway {

// Texts on which tokenizers part: white space, digits, case, scripts, emoji, code.
inline constexpr const char* kTexts[] = {"Hello world",
                                         "  two  spaces\n\n\tand a tab",
                                         "3.14159 and 1234567",
                                         "naïve façade Straße",
                                         "नमस्ते 你好 こんにちは",
                                         "👩‍👩‍👧‍👦 🙂",
                                         "for (int i = 0; i < n; ++i) { x[i] *= 2; }"};

// What is asked for as a bare prompt.
inline constexpr const char* kBareText = "Hello";

inline boost::json::array chat(std::initializer_list<std::pair<const char*, const char*>> messages) {
  boost::json::array out;
  for (const auto& [role, content] : messages) {
    out.push_back(boost::json::object{{"role", role}, {"content", content}});
  }
  return out;
}

// Chats on which templates part: with and without a system message, several turns, blanks at the ends.
inline std::vector<boost::json::array> chats() {
  return {chat({{"user", "What is the capital of France?"}}),
          chat({{"system", "Answer in one word."}, {"user", "Which colour has the sky?"}}),
          chat({{"user", "Hi."}, {"assistant", "Hello!"}, {"user", "  Count to three.  "}})};
}

}  // namespace martlet::gateway
