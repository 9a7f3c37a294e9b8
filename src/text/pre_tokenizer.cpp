#include "text/pre_tokenizer.h"

#include <algorithm>

#include "base/utf8.h"

namespace martlet {

PreTokenizer::PreTokenizer(const PreTokenizerRow& row) {
  for (const char* expression : row.expressions) patterns_.emplace_back(expression);
}

void PreTokenizer::split(std::string_view text, Pattern::Match& match,
                         FunctionRef<void(std::string_view)> piece) const {
  while (!text.empty()) {
    const size_t valid = std::min(utf8::find_invalid(text), text.size());
    if (valid > 0) split_by(0, text.substr(0, valid), match, piece);
    text.remove_prefix(valid);
    if (text.empty()) return;
    const size_t invalid = utf8::decode(text, 0).length;
    piece(text.substr(0, invalid));
    text.remove_prefix(invalid);
  }
}

// Each pattern cuts what the one before it left, both its matches and the gaps between them.
void PreTokenizer::split_by(size_t pattern, std::string_view text, Pattern::Match& match,
                            FunctionRef<void(std::string_view)> piece) const {
  if (pattern == patterns_.size()) return piece(text);
  for (size_t at = 0; at < text.size();) {
    const Span found = patterns_[pattern].find(text, at, match);
    if (found.begin > at) split_by(pattern + 1, text.substr(at, found.begin - at), match, piece);
    if (found.end > found.begin) split_by(pattern + 1, text.substr(found.begin, found.end - found.begin), match, piece);
    at = found.end;
  }
}

}  // namespace martlet
