#pragma once

// Cuts text into the pieces that byte-pair merging does not cross. One row of pre_tokenizers.cpp for every name that
// model files use.

#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "text/pattern.h"
#include "text/pre_tokenizers.h"

namespace martlet {

class PreTokenizer {
 public:
  explicit PreTokenizer(const PreTokenizerRow& row);

  // Calls `piece` for every piece of `text` in order; together they are the whole text. Bytes that are not UTF-8 are
  // pieces of their own. Linear.
  void split(std::string_view text, Pattern::Match& match, FunctionRef<void(std::string_view)> piece) const;

 private:
  void split_by(size_t pattern, std::string_view text, Pattern::Match& match,
                FunctionRef<void(std::string_view)> piece) const;

  std::vector<Pattern> patterns_;
};

}  // namespace martlet
