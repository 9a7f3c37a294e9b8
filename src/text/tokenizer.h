#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "file/model_file.h"

namespace martlet {

// Half-open byte range of a text.
struct Span {
  size_t begin = 0, end = 0;
};

enum class TokenKind : uint8_t { normal, unknown, control, user_defined, unused, byte };

// Text to token ids and back. Immutable, thread-safe. encode is linear in the size of the text.
class Tokenizer {
 public:
  // Errors: ErrorKind::model, "bad_vocab" (A9) or "unsupported_tokenizer".
  static Result<std::shared_ptr<const Tokenizer>> create(const ModelFile& file);
  virtual ~Tokenizer() = default;

  // Encodes `text`, appending to `out`. Control tokens ("<|im_start|>") are recognised only where they lie wholly
  // inside one of the `trusted` spans (sorted, disjoint); elsewhere their letters are ordinary text. User-defined
  // tokens are recognised everywhere. No BOS or EOS is added. `text` may hold any bytes.
  virtual void encode(std::string_view text, std::span<const Span> trusted, std::vector<Token>& out) const = 0;

  // The bytes of one token as they continue a text. Control tokens give their name when `special`, else nothing; so do
  // ids from size() on, which a model may have rows for. `token` is not negative.
  virtual std::string_view bytes(Token token, bool special = false) const = 0;
  // The text of a whole sequence (a SentencePiece sequence loses its artificial first space).
  virtual std::string decode(std::span<const Token> tokens, bool special = false) const = 0;
  // True when decode() drops one leading space of a sequence's first token.
  virtual bool strips_leading_space() const = 0;

  virtual int32_t size() const = 0;
  virtual TokenKind kind(Token token) const = 0;
  virtual std::string_view piece(Token token) const = 0;  // as the vocabulary writes it
  virtual Token find(std::string_view piece) const = 0;   // -1 when absent

  Token bos() const { return bos_; }  // -1 when the model has none
  Token eos() const { return eos_; }
  bool adds_bos() const { return adds_bos_; }
  bool adds_eos() const { return adds_eos_; }
  // Every token that ends a generation: eos, eot, eom and what the vocabulary names as such. Sorted.
  std::span<const Token> stop_tokens() const { return stop_tokens_; }
  bool is_stop(Token token) const;

 protected:
  Token bos_ = -1, eos_ = -1;
  bool adds_bos_ = false, adds_eos_ = false;
  std::vector<Token> stop_tokens_;
};

}  // namespace martlet
