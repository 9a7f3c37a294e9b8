#include "text/detokenizer.h"

#include "base/utf8.h"

namespace martlet {

Detokenizer::Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool special, bool continues)
    : tokenizer_(std::move(tokenizer)), special_(special), strip_(!continues && tokenizer_->strips_leading_space()) {}

std::string Detokenizer::push(Token token) {
  std::string_view bytes = tokenizer_->bytes(token, special_);
  if (strip_ && !bytes.empty()) {
    strip_ = false;
    if (bytes.front() == ' ') bytes.remove_prefix(1);
  }
  pending_ += bytes;
  const size_t whole = utf8::complete_prefix(pending_);
  std::string out = utf8::replace_invalid(std::string_view(pending_).substr(0, whole));
  pending_.erase(0, whole);
  return out;
}

std::string Detokenizer::finish() {
  std::string out = utf8::replace_invalid(pending_);
  pending_.clear();
  return out;
}

}  // namespace martlet
