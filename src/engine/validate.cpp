#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "engine/engine_thread.h"
#include "sample/parameters.h"

namespace martlet {
namespace {

constexpr int32_t kMaxTopLogprobs = 20;

Error bad(const char* code, std::string text, const char* field) {
  return {ErrorKind::request, code, std::move(text), field};
}

bool all_known(std::span<const Token> tokens, int32_t vocabulary) {
  return std::all_of(tokens.begin(), tokens.end(), [&](Token token) { return token >= 0 && token < vocabulary; });
}

}  // namespace

Status validate(const Request& request, int32_t context, int32_t vocabulary, bool drafts) {
  if (request.prompt.empty()) return bad("empty_prompt", "the prompt has no tokens", "prompt");
  if (request.prompt.size() > static_cast<size_t>(context))
    return bad("context_length_exceeded",
               fmt::format("the prompt has {} tokens and the context holds {}", request.prompt.size(), context),
               "prompt");
  if (!all_known(request.prompt, vocabulary))
    return bad("invalid_token_id", "a token id lies outside the vocabulary", "prompt");
  if (!all_known(request.stop_tokens, vocabulary))
    return bad("invalid_token_id", "a token id lies outside the vocabulary", "stop_tokens");
  if (request.max_tokens < (request.prompt_logprobs ? 0 : 1))
    return bad("invalid_value", "must be at least 1, or 0 where the prompt is scored", "max_tokens");
  if (request.top_logprobs < -1 || request.top_logprobs > kMaxTopLogprobs)
    return bad("invalid_value", "must be between 0 and 20", "top_logprobs");
  if (request.tenant < 0) return bad("invalid_value", "must be 0 or more", "tenant");
  if (std::abs(int64_t{request.priority}) > kMaxPriority)
    return bad("invalid_value", "must be between -100 and 100", "priority");
  if (!drafts && request.speculation && request.speculation->mode != Speculation::Mode::off)
    return bad("no_drafter", "nothing drafts here: start with --draft ngram or --draft MODEL, or say off",
               "speculation");
  if (request.speculation && request.speculation->mode == Speculation::Mode::fixed &&
      (request.speculation->length < 1 || request.speculation->length > kMaxDraft))
    return bad("invalid_value", fmt::format("must be between 1 and {} drafts", kMaxDraft), "speculation");
  return validate(request.sampling, vocabulary);
}

}  // namespace martlet
