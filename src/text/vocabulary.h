#pragma once

// The vocabulary of a model file, checked, and what all kinds of tokenizers share about it.

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "file/model_file.h"
#include "text/flat_map.h"
#include "text/tokenizer.h"

namespace martlet {

// What a file says about its vocabulary. Strings are borrowed from `owner`.
struct VocabularySource {
  std::string_view model, pre;  // tokenizer.ggml.model, tokenizer.ggml.pre
  std::vector<std::string_view> pieces;
  std::vector<TokenKind> kinds;          // one a piece
  std::vector<float> scores;             // one a piece, or none
  std::vector<std::string_view> merges;  // "left right", best first
  std::string_view charsmap;             // SentencePiece's compiled normalisation, may be empty
  Token bos = -1, eos = -1;
  std::vector<Token> stops;  // end-of-turn and the like, besides eos
  bool adds_bos = false, adds_eos = false;
  bool adds_space_prefix = false, removes_extra_spaces = false;
  std::shared_ptr<const void> owner;
};

// Reads and checks the keys of a GGUF vocabulary. Errors: "bad_vocab", "unsupported_tokenizer".
Result<VocabularySource> read_vocabulary(const ModelFile& file);
// Makes the tokenizer of a source whose token ids are in range. Errors as Tokenizer::create.
Result<std::shared_ptr<const Tokenizer>> make_tokenizer(VocabularySource source);

// Pieces, kinds and the index from piece to id. Immutable.
class Vocabulary {
 public:
  Vocabulary(std::vector<std::string_view> pieces, std::vector<TokenKind> kinds, std::shared_ptr<const void> owner);

  size_t size() const { return pieces_.size(); }
  std::string_view piece(Token token) const { return pieces_[token]; }
  TokenKind kind(Token token) const { return kinds_[token]; }
  size_t longest_piece() const { return longest_; }
  Token find(std::string_view piece) const {
    return find(piece, hash_bytes(piece));
  }  // -1 when absent; the first of equals
  // As find, several times faster than one by one: the tables are larger than the caches, and are fetched for many at
  // once.
  void find_all(std::span<const std::string_view> pieces, std::span<Token> out) const;
  // The normal token of this piece, -1 when there is none: text itself never becomes a token of another kind.
  Token find_normal(std::string_view piece) const {
    const Token token = find(piece);
    return token >= 0 && kind(token) == TokenKind::normal ? token : -1;
  }
  // The ids of the 256 `<0xNN>` byte tokens, -1 where there is none.
  std::vector<Token> byte_tokens() const;

 private:
  struct Slot {
    uint32_t tag;
    Token token = -1;
  };
  Token find(std::string_view piece, uint64_t hash) const;
  const Slot& first_slot(uint64_t hash) const { return slots_[hash & (slots_.size() - 1)]; }
  void add(Token token, uint64_t hash);

  std::vector<std::string_view> pieces_;
  std::vector<TokenKind> kinds_;
  std::shared_ptr<const void> owner_;
  std::vector<Slot> slots_;
  size_t longest_ = 0;
};

Error bad_vocabulary(const char* text);

}  // namespace martlet
