#include "text/vocabulary.h"

#include "text/flat_map.h"
#include "text/vocabulary_tokenizer.h"

namespace martlet {

Error bad_vocabulary(const char* text) {
  return {ErrorKind::model, "bad_vocab", std::string(text) + "; the file is damaged, or was written by a faulty converter", "tokenizer.ggml"};
}

Vocabulary::Vocabulary(std::vector<std::string_view> pieces, std::vector<TokenKind> kinds, std::shared_ptr<const void> owner)
    : pieces_(std::move(pieces)), kinds_(std::move(kinds)), owner_(std::move(owner)), slots_(slots_for(pieces_.size())) {
  const size_t mask = slots_.size() - 1;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const uint64_t hash = hash_bytes(pieces_[i]);
    const auto tag = static_cast<uint32_t>(hash >> 32);
    size_t at = hash & mask;
    while (slots_[at].token >= 0 && !(slots_[at].tag == tag && pieces_[slots_[at].token] == pieces_[i])) at = (at + 1) & mask;
    if (slots_[at].token < 0) slots_[at] = {tag, static_cast<Token>(i)};
    longest_ = std::max(longest_, pieces_[i].size());
  }
}

Token Vocabulary::find(std::string_view piece) const {
  const uint64_t hash = hash_bytes(piece);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.token < 0 || (slot.tag == tag && pieces_[slot.token] == piece)) return slot.token;
  }
}

std::vector<Token> Vocabulary::byte_tokens() const {
  std::vector<Token> tokens(256, -1);
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (kinds_[i] == TokenKind::byte) tokens[byte_of_piece(pieces_[i])] = static_cast<Token>(i);
  }
  return tokens;
}

}  // namespace martlet
