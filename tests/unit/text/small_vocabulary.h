#pragma once

// Vocabularies built in code, for tests and the fuzzer.

#include <memory>
#include <string>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/vocabulary.h"

namespace martlet {

class SmallVocabulary {
 public:
  Token add(std::string piece, TokenKind kind = TokenKind::normal, float score = 0) {
    pieces_->push_back(std::move(piece));
    kinds_.push_back(kind);
    scores_.push_back(score);
    return static_cast<Token>(kinds_.size()) - 1;
  }
  void add_letters() {  // the 256 bytes of a byte-level vocabulary: ids are bytes
    for (int byte = 0; byte < 256; ++byte)
      add(std::string(ByteAlphabet::instance().letter(static_cast<uint8_t>(byte))));
  }
  void add_bytes() {  // the 256 byte tokens of a SentencePiece vocabulary
    for (int byte = 0; byte < 256; ++byte) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", byte);
      add(name, TokenKind::byte);
    }
  }
  // A merge of two pieces into a new one. Returns it.
  std::string merge(const std::string& left, const std::string& right, TokenKind kind = TokenKind::normal) {
    add(left + right, kind, static_cast<float>(-static_cast<int>(kinds_.size())));
    merges_->push_back(left + " " + right);
    return left + right;
  }
  // Merges `unit` (any bytes) into one piece, and that into pieces of 2, 4 ... 2^doublings of it.
  void merge_repeats(std::string_view unit, int doublings) {
    std::string piece;
    for (const char c : unit) {
      const std::string letter(ByteAlphabet::instance().letter(static_cast<uint8_t>(c)));
      piece = piece.empty() ? letter : merge(piece, letter);
    }
    for (int i = 0; i < doublings; ++i) piece = merge(piece, piece);
  }
  VocabularySource source(std::string_view model, std::string_view pre) const {
    VocabularySource out;
    out.model = model;
    out.pre = pre;
    out.pieces.assign(pieces_->begin(), pieces_->end());
    out.kinds = kinds_;
    out.scores = scores_;
    out.merges.assign(merges_->begin(), merges_->end());
    out.owner = std::make_shared<std::pair<decltype(pieces_), decltype(merges_)>>(pieces_, merges_);
    return out;
  }

 private:
  std::shared_ptr<std::vector<std::string>> pieces_ = std::make_shared<std::vector<std::string>>(),
                                            merges_ = std::make_shared<std::vector<std::string>>();
  std::vector<TokenKind> kinds_;
  std::vector<float> scores_;
};

inline std::vector<Token> encode(const Tokenizer& tokenizer, std::string_view text,
                                 const std::vector<Span>& trusted = {}) {
  std::vector<Token> out;
  tokenizer.encode(text, trusted, out);
  return out;
}

}  // namespace martlet
