#pragma once

#include <string>

#include "text/special_tokens.h"

namespace martlet {

// The half of a tokenizer that does not depend on how text is cut: pieces, special tokens, and the way back to text.
class VocabularyTokenizer : public Tokenizer {
 public:
  std::string_view bytes(Token token, bool special) const override;
  std::string decode(std::span<const Token> tokens, bool special) const override;
  bool strips_leading_space() const override { return strips_leading_space_; }
  int32_t size() const override { return static_cast<int32_t>(vocabulary_.size()); }
  TokenKind kind(Token token) const override { return vocabulary_.kind(token); }
  std::string_view piece(Token token) const override { return vocabulary_.piece(token); }
  Token find(std::string_view piece) const override { return vocabulary_.find(piece); }

 protected:
  // Appends the bytes of a normal token, given as its piece. All other kinds but bytes are spelled as they are.
  using Spell = void (*)(std::string_view piece, std::string& out);
  VocabularyTokenizer(VocabularySource source, Spell spell);

  Vocabulary vocabulary_;
  SpecialTokens specials_;
  bool strips_leading_space_;

 private:
  std::string spelled_;
  std::vector<uint32_t> ends_;  // of each token in spelled_
};

// The value of a piece "<0xNN>", or -1.
int byte_of_piece(std::string_view piece);

}  // namespace martlet
