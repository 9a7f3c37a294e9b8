#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "martlet/request.h"
#include "text/detokenizer.h"

namespace martlet::server {

// A token of an answer with its log-probability, tied to the place in the text where it begins.
struct ScoredToken {
  Token token = -1;
  std::optional<float> logprob;              // none for the first token of a prompt
  std::vector<std::pair<Token, float>> top;  // best first
  size_t offset = 0;                         // code points before it in the answer's text
};

struct Delta {
  std::string text;
  std::vector<ScoredToken> tokens;
  bool empty() const { return text.empty() && tokens.empty(); }
};

// Turns the tokens of one choice into text: whole UTF-8 only, cut at the first stop string, scored tokens together with
// their text. Not thread-safe.
class ChoiceText {
 public:
  // `begins`: the text starts with the first token (an echoed prompt, a chat's answer); otherwise it continues one.
  ChoiceText(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stops, bool begins, bool scored);

  // Appends what may be shown now. After a stop string matched, stopped() is true and tokens are ignored.
  void push(const Emitted& emitted, Delta& out);
  // An echoed prompt token: not searched for stop strings.
  void push_prompt(Token token, std::optional<float> logprob, std::vector<std::pair<Token, float>> top, Delta& out);
  // What was held back, when the choice ends without a stop string.
  void finish(Delta& out);

  bool stopped() const { return stops_.stopped(); }
  int32_t output_tokens() const { return output_tokens_; }

 private:
  void wait(Token token, std::optional<float> logprob, std::vector<std::pair<Token, float>> top);
  void show(std::string text, Delta& out);
  void release(Delta& out);

  Detokenizer detokenizer_;
  StopStrings stops_;
  bool scored_;
  size_t decoded_ = 0, shown_ = 0;   // code points: out of the detokenizer, out of the stop strings' hold
  std::deque<ScoredToken> waiting_;  // their text is held back
  int32_t output_tokens_ = 0;
};

}  // namespace martlet::server
