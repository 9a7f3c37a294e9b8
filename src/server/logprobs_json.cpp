#include "server/logprobs_json.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"

namespace martlet::server {

namespace json = boost::json;

namespace {

constexpr double kLowestLogprob = -9999;  // what OpenAI writes for "never": JSON has no infinity

json::value number(float logprob) {
  return std::isfinite(logprob) ? std::max<double>(logprob, kLowestLogprob) : kLowestLogprob;
}

json::string text(const Tokenizer& tokenizer, Token token) {
  return json::string(utf8::replace_invalid(tokenizer.bytes(token, true)));
}

json::array bytes(const Tokenizer& tokenizer, Token token) {
  json::array out;
  for (const unsigned char byte : tokenizer.bytes(token, true)) out.emplace_back(static_cast<int64_t>(byte));
  return out;
}

json::object chat_token(const Tokenizer& tokenizer, Token token, float logprob) {
  return {{"token", text(tokenizer, token)}, {"logprob", number(logprob)}, {"bytes", bytes(tokenizer, token)}};
}

}  // namespace

json::value chat_logprobs(const Tokenizer& tokenizer, const std::vector<ScoredToken>& tokens) {
  json::array content;
  for (const ScoredToken& scored : tokens) {
    json::object entry = chat_token(tokenizer, scored.token, scored.logprob.value_or(0));
    json::array top;
    for (const auto& [token, logprob] : scored.top) top.emplace_back(chat_token(tokenizer, token, logprob));
    entry["top_logprobs"] = std::move(top);
    content.emplace_back(std::move(entry));
  }
  return json::object{{"content", std::move(content)}, {"refusal", nullptr}};
}

json::value text_logprobs(const Tokenizer& tokenizer, const std::vector<ScoredToken>& tokens) {
  json::array texts, logprobs, tops, offsets, ids, all_bytes;
  for (const ScoredToken& scored : tokens) {
    texts.emplace_back(text(tokenizer, scored.token));
    offsets.emplace_back(static_cast<int64_t>(scored.offset));
    ids.emplace_back(scored.token);
    all_bytes.emplace_back(bytes(tokenizer, scored.token));
    logprobs.emplace_back(scored.logprob ? number(*scored.logprob) : json::value());
    if (!scored.logprob || scored.top.empty()) {
      tops.emplace_back(nullptr);
      continue;
    }
    // Best first: of two tokens with one text (two invalid bytes), the likelier one stays.
    json::object top;
    for (const auto& [token, logprob] : scored.top) top.emplace(text(tokenizer, token), number(logprob));
    top.emplace(text(tokenizer, scored.token), number(*scored.logprob));  // the chosen one is always among them
    tops.emplace_back(std::move(top));
  }
  return json::object{{"tokens", std::move(texts)},      {"token_logprobs", std::move(logprobs)},
                      {"top_logprobs", std::move(tops)}, {"text_offset", std::move(offsets)},
                      {"token_ids", std::move(ids)},     {"bytes", std::move(all_bytes)}};
}

}  // namespace martlet::server
