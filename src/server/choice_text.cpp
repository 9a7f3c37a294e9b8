#include "server/choice_text.h"

#include <algorithm>

namespace martlet::server {
namespace {

size_t codepoints(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

}  // namespace

ChoiceText::ChoiceText(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stops, bool begins,
                       bool scored)
    : detokenizer_(std::move(tokenizer), false, !begins), stops_(std::move(stops)), scored_(scored) {}

void ChoiceText::wait(Token token, std::optional<float> logprob, std::vector<std::pair<Token, float>> top) {
  if (scored_) waiting_.push_back({token, logprob, std::move(top), decoded_});
}

void ChoiceText::show(std::string text, Delta& out) {
  shown_ += codepoints(text);
  out.text += text;
}

// A token goes out once any of its text does, or when nothing is held back that could take it away again.
void ChoiceText::release(Delta& out) {
  while (!waiting_.empty() && (waiting_.front().offset < shown_ || (decoded_ == shown_ && !stopped()))) {
    out.tokens.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

void ChoiceText::push_prompt(Token token, std::optional<float> logprob, std::vector<std::pair<Token, float>> top,
                             Delta& out) {
  wait(token, logprob, std::move(top));
  std::string text = detokenizer_.push(token);
  decoded_ += codepoints(text);
  show(std::move(text), out);
  release(out);
}

void ChoiceText::push(const Emitted& emitted, Delta& out) {
  if (stopped()) return;
  ++output_tokens_;
  if (emitted.stop) return;
  wait(emitted.token, emitted.logprob, emitted.top);
  const std::string text = detokenizer_.push(emitted.token);
  decoded_ += codepoints(text);
  show(stops_.push(text), out);
  release(out);
}

void ChoiceText::finish(Delta& out) {
  if (stopped()) return;
  const std::string text = detokenizer_.finish();
  decoded_ += codepoints(text);
  show(stops_.push(text), out);
  if (!stopped()) show(stops_.finish(), out);
  release(out);
}

}  // namespace martlet::server
