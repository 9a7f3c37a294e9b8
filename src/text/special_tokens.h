#pragma once

#include "base/function_ref.h"
#include "text/byte_trie.h"
#include "text/vocabulary.h"

namespace martlet {

// Finds the tokens that are matched in the text itself, before any merging: the longest at the leftmost place.
class SpecialTokens {
 public:
  explicit SpecialTokens(const Vocabulary& vocabulary);

  // Calls `part(plain, token)`: a stretch of plain text (may be empty), then the special token behind it, or -1 at the
  // end of the text. User-defined tokens match everywhere, control and unknown tokens wholly inside one span of
  // `trusted`.
  void split(std::string_view text, std::span<const Span> trusted,
             FunctionRef<void(std::string_view, Token)> part) const;

 private:
  struct Match {
    Token token = -1;
    size_t end = 0;
  };
  // The longest token at text[at..]; control tokens only if they end within `trusted_end`.
  Match longest(std::string_view text, size_t at, size_t trusted_end) const;

  ByteTrie trie_;                 // token ids
  std::vector<bool> everywhere_;  // by token
};

}  // namespace martlet
