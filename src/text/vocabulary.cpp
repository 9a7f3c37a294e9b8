#include "text/vocabulary.h"

#include <algorithm>

#include "text/vocabulary_tokenizer.h"

namespace martlet {
namespace {

constexpr size_t kBatch = 64;  // look-ups whose memory is fetched at once

}  // namespace

Error bad_vocabulary(const char* text) {
  return {ErrorKind::model, "bad_vocab",
          std::string(text) + "; the file is damaged, or was written by a faulty converter", "tokenizer.ggml"};
}

Vocabulary::Vocabulary(std::vector<std::string_view> pieces, std::vector<TokenKind> kinds,
                       std::shared_ptr<const void> owner)
    : pieces_(std::move(pieces)),
      kinds_(std::move(kinds)),
      owner_(std::move(owner)),
      slots_(slots_for(pieces_.size())) {
  uint64_t hashes[kBatch];
  for (size_t begin = 0; begin < pieces_.size(); begin += kBatch) {
    const size_t count = std::min(kBatch, pieces_.size() - begin);
    for (size_t i = 0; i < count; ++i) __builtin_prefetch(&first_slot(hashes[i] = hash_bytes(pieces_[begin + i])), 1);
    for (size_t i = 0; i < count; ++i) add(static_cast<Token>(begin + i), hashes[i]);
  }
}

void Vocabulary::add(Token token, uint64_t hash) {
  const std::string_view piece = pieces_[token];
  const auto tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].token >= 0 && !(slots_[at].tag == tag && pieces_[slots_[at].token] == piece)) at = (at + 1) & mask;
  if (slots_[at].token < 0) slots_[at] = {tag, token};
  longest_ = std::max(longest_, piece.size());
}

Token Vocabulary::find(std::string_view piece, uint64_t hash) const {
  const auto tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.token < 0 || (slot.tag == tag && pieces_[slot.token] == piece)) return slot.token;
  }
}

void Vocabulary::find_all(std::span<const std::string_view> pieces, std::span<Token> out) const {
  uint64_t hashes[kBatch];
  for (size_t begin = 0; begin < pieces.size(); begin += kBatch) {
    const auto batch = pieces.subspan(begin, std::min(kBatch, pieces.size() - begin));
    const auto token = [&](size_t i) { return std::max(first_slot(hashes[i]).token, 0); };
    for (size_t i = 0; i < batch.size(); ++i) __builtin_prefetch(&first_slot(hashes[i] = hash_bytes(batch[i])));
    for (size_t i = 0; i < batch.size(); ++i) __builtin_prefetch(&pieces_[token(i)]);
    for (size_t i = 0; i < batch.size(); ++i) __builtin_prefetch(pieces_[token(i)].data());
    for (size_t i = 0; i < batch.size(); ++i) out[begin + i] = find(batch[i], hashes[i]);
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
