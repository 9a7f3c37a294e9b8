#pragma once

// For upstreams that get token ids instead of text: what a client asked for as a request to /v1/completions, and its
// answer in the shape of a chat.

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "gateway/text_model.h"

namespace martlet::gateway {

// `body`, of /v1/chat/completions (`chat`) or /v1/completions, with token ids in the place of its text: the template's
// control tokens, and none of the user's. A chat without a limit gets one: what `context` (tokens of prompt and answer)
// has left, as completions have a small one by default. Errors (ErrorKind::request): those of parsing messages and
// of templates; `unsupported_parameter` for what only a chat knows (tools, formats, scores of tokens);
// `context_length_exceeded`; `invalid_value` for a prompt that is neither texts nor ids, or of more than 2^20 tokens in
// all, and for a chat's `n` above 128.
Result<std::string> token_request(const TextModel& model, std::string_view body, bool chat, int64_t context);

// Answers of /v1/completions as /v1/chat/completions gives them. nullopt: it is no such answer.
class ChatShape {
 public:
  static constexpr size_t kChoices = 128;  // that a stream may have

  static std::optional<std::string> whole(std::string_view answer);
  // One event of a stream; the first of each choice says who speaks.
  std::optional<std::string> event(std::string_view event);

 private:
  std::bitset<kChoices> begun_;
};

}  // namespace martlet::gateway
