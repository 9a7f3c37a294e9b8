#pragma once

// What the SentencePiece kinds of vocabularies share: spaces written as U+2581, words, and characters that are no
// piece.

#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "text/vocabulary.h"

namespace martlet {

inline constexpr std::string_view kSpaceMark = "\u2581";

// Appends `piece` with every kSpaceMark as a space.
void append_with_spaces(std::string_view piece, std::string& out);

// True when no normal piece holds a space mark behind another character: then nothing merges across the beginning of a
// word, and words may be encoded one by one.
bool words_stand_apart(const Vocabulary& vocabulary);
// Calls `word` for every run of space marks with the characters behind it; for the whole text when not `apart`.
void for_each_word(std::string_view marked, bool apart, FunctionRef<void(std::string_view)> word);

// Characters that no piece stands for.
class ByteFallback {
 public:
  explicit ByteFallback(const Vocabulary& vocabulary);
  // Appends the byte tokens of `character`; when there are none, the unknown token; when there is none, nothing.
  void append(std::string_view character, std::vector<Token>& out) const;
  bool has_bytes() const { return complete_; }

 private:
  std::vector<Token> bytes_;
  bool complete_;
  Token unknown_ = -1;
};

}  // namespace martlet
