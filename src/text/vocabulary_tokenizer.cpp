#include "text/vocabulary_tokenizer.h"

#include <cassert>

namespace martlet {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

int byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  const int high = hex_digit(piece[3]), low = hex_digit(piece[4]);
  return high < 0 || low < 0 ? -1 : high << 4 | low;
}

VocabularyTokenizer::VocabularyTokenizer(VocabularySource source, Spell spell)
    : vocabulary_(std::move(source.pieces), std::move(source.kinds), std::move(source.owner)),
      specials_(vocabulary_),
      strips_leading_space_(source.adds_space_prefix) {
  bos_ = source.bos;
  eos_ = source.eos;
  adds_bos_ = source.adds_bos;
  adds_eos_ = source.adds_eos;
  stop_tokens_ = std::move(source.stops);
  ends_.reserve(vocabulary_.size());
  for (Token token = 0; token < size(); ++token) {
    const std::string_view piece = vocabulary_.piece(token);
    if (kind(token) == TokenKind::normal)
      spell(piece, spelled_);
    else if (kind(token) == TokenKind::byte)
      spelled_ += static_cast<char>(byte_of_piece(piece));
    else
      spelled_ += piece;
    ends_.push_back(static_cast<uint32_t>(spelled_.size()));
  }
}

std::string_view VocabularyTokenizer::bytes(Token token, bool special) const {
  assert(token >= 0);
  if (token >= size()) return {};  // a row of the model's output that pads it to a round number
  if (!special && (kind(token) == TokenKind::control || kind(token) == TokenKind::unknown)) return {};
  const uint32_t begin = token ? ends_[token - 1] : 0;
  return std::string_view(spelled_).substr(begin, ends_[token] - begin);
}

std::string VocabularyTokenizer::decode(std::span<const Token> tokens, bool special) const {
  std::string out;
  for (const Token token : tokens) out += bytes(token, special);
  if (strips_leading_space_ && out.starts_with(' ')) out.erase(0, 1);
  return out;
}

}  // namespace martlet
