#include "text/sentence_text.h"

#include <algorithm>

namespace martlet {
namespace {

// Offset of the first space mark that follows another character than a space mark.
size_t next_word(std::string_view text) {
  for (size_t at = 0; (at = text.find(kSpaceMark, at)) != std::string_view::npos; at += kSpaceMark.size()) {
    if (at > 0 && !text.substr(0, at).ends_with(kSpaceMark)) return at;
  }
  return std::string_view::npos;
}

}  // namespace

void append_with_spaces(std::string_view piece, std::string& out) {
  for (size_t at = 0;;) {
    const size_t mark = piece.find(kSpaceMark, at);
    out.append(piece.substr(at, mark - at));
    if (mark == std::string_view::npos) return;
    out += ' ';
    at = mark + kSpaceMark.size();
  }
}

bool words_stand_apart(const Vocabulary& vocabulary) {
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    const auto token = static_cast<Token>(i);
    if (vocabulary.kind(token) == TokenKind::normal && next_word(vocabulary.piece(token)) != std::string_view::npos)
      return false;
  }
  return true;
}

void for_each_word(std::string_view marked, bool apart, FunctionRef<void(std::string_view)> word) {
  while (!marked.empty()) {
    const size_t end = std::min(apart ? next_word(marked) : marked.size(), marked.size());
    word(marked.substr(0, end));
    marked.remove_prefix(end);
  }
}

ByteFallback::ByteFallback(const Vocabulary& vocabulary)
    : bytes_(vocabulary.byte_tokens()), complete_(std::ranges::find(bytes_, -1) == bytes_.end()) {
  for (size_t i = 0; i < vocabulary.size() && unknown_ < 0; ++i) {
    if (vocabulary.kind(static_cast<Token>(i)) == TokenKind::unknown) unknown_ = static_cast<Token>(i);
  }
}

void ByteFallback::append(std::string_view character, std::vector<Token>& out) const {
  if (complete_) {
    for (const char c : character) out.push_back(bytes_[static_cast<uint8_t>(c)]);
  } else if (unknown_ >= 0) {
    out.push_back(unknown_);
  }
}

}  // namespace martlet
