#include "text/special_tokens.h"

namespace martlet {

SpecialTokens::SpecialTokens(const Vocabulary& vocabulary) : everywhere_(vocabulary.size()) {
  const auto size = static_cast<Token>(vocabulary.size());
  for (Token token = 0; token < size; ++token) {
    const TokenKind kind = vocabulary.kind(token);
    everywhere_[token] = kind == TokenKind::user_defined;
    if (kind != TokenKind::user_defined && kind != TokenKind::control && kind != TokenKind::unknown) continue;
    if (!vocabulary.piece(token).empty()) trie_.insert(vocabulary.piece(token), static_cast<uint32_t>(token));
  }
}

SpecialTokens::Match SpecialTokens::longest(std::string_view text, size_t at, size_t trusted_end) const {
  Match best;
  uint32_t node = ByteTrie::kRoot;
  for (size_t i = at; i < text.size();) {
    node = trie_.child(node, static_cast<uint8_t>(text[i++]));
    if (node == ByteTrie::kNone) break;
    const uint32_t token = trie_.value(node);
    if (token != ByteTrie::kNone && (everywhere_[token] || i <= trusted_end)) best = {static_cast<Token>(token), i};
  }
  return best;
}

void SpecialTokens::split(std::string_view text, std::span<const Span> trusted,
                          FunctionRef<void(std::string_view, Token)> part) const {
  size_t plain = 0;
  for (size_t at = 0; at < text.size();) {
    if (trie_.child(ByteTrie::kRoot, static_cast<uint8_t>(text[at])) == ByteTrie::kNone) {
      ++at;
      continue;
    }
    while (!trusted.empty() && trusted.front().end <= at) trusted = trusted.subspan(1);
    const bool inside = !trusted.empty() && trusted.front().begin <= at;
    const Match match = longest(text, at, inside ? trusted.front().end : 0);
    if (match.token < 0) {
      ++at;
      continue;
    }
    part(text.substr(plain, at - plain), match.token);
    plain = at = match.end;
  }
  if (plain < text.size()) part(text.substr(plain), -1);
}

}  // namespace martlet
