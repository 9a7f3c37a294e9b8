#pragma once

// A tokenizer of bytes: token n is the byte n; 256 ends an answer and is called <end>, 257 begins a text: <begin>.

#include <array>

#include "text/tokenizer.h"

namespace martlet::server {

class FakeTokenizer final : public Tokenizer {
 public:
  static constexpr Token kEnd = 256, kBegin = 257;

  FakeTokenizer() {
    for (int i = 0; i < 256; ++i) bytes_[i] = static_cast<char>(i);
    bos_ = kBegin;
    eos_ = kEnd;
    adds_bos_ = true;
    stop_tokens_ = {kEnd};
  }

  void encode(std::string_view text, std::span<const Span> trusted, std::vector<Token>& out) const override {
    for (size_t i = 0; i < text.size(); ++i) {
      const bool inside = std::any_of(trusted.begin(), trusted.end(),
                                      [&](const Span& span) { return i >= span.begin && i + 7 <= span.end; });
      if (inside && text.substr(i).starts_with("<begin>")) {
        out.push_back(kBegin);
        i += 6;
      } else {
        out.push_back(static_cast<unsigned char>(text[i]));
      }
    }
  }
  std::string_view bytes(Token token, bool special) const override {
    if (token < 256) return {&bytes_[token], 1};
    return special ? piece(token) : std::string_view();
  }
  std::string decode(std::span<const Token> tokens, bool special) const override {
    std::string out;
    for (const Token token : tokens) out += bytes(token, special);
    return out;
  }
  bool strips_leading_space() const override { return false; }
  int32_t size() const override { return 258; }
  TokenKind kind(Token token) const override { return token < 256 ? TokenKind::normal : TokenKind::control; }
  std::string_view piece(Token token) const override {
    if (token < 256) return {&bytes_[token], 1};
    return token == kEnd ? "<end>" : "<begin>";
  }
  Token find(std::string_view) const override { return -1; }

 private:
  std::array<char, 256> bytes_;
};

}  // namespace martlet::server
