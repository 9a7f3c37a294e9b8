#include <fmt/format.h>

#include "server/field.h"
#include "server/served_model.h"

namespace martlet::server {

namespace json = boost::json;

namespace {

constexpr size_t kMaxPrompts = 128;

Error empty_prompt(const std::string& name) {
  return bad_field("empty_prompt", "must not be empty", name);
}

// A user's text: nothing in it is trusted, so no part of it becomes a control token.
std::vector<Token> encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<Token> out;
  if (tokenizer.adds_bos() && tokenizer.bos() >= 0) out.push_back(tokenizer.bos());
  tokenizer.encode(text, {}, out);
  return out;
}

Result<std::vector<Token>> one_prompt(const ServedModel& model, const json::value& prompt, const std::string& name) {
  if (prompt.is_string()) {
    if (prompt.get_string().empty()) return empty_prompt(name);
    return encode(*model.tokenizer, prompt.get_string());
  }
  MARTLET_ASSIGN(std::vector<Token> tokens, read_tokens(prompt, name, model.engine->vocabulary()));
  if (tokens.empty()) return empty_prompt(name);
  return tokens;
}

}  // namespace

Result<std::vector<std::vector<Token>>> text_prompts(const ServedModel& model, const ApiRequest& request) {
  const json::value& prompt = request.prompt;
  const bool many = prompt.is_array() && !prompt.get_array().empty() &&
                    (prompt.get_array()[0].is_string() || prompt.get_array()[0].is_array());
  std::vector<std::vector<Token>> out;
  if (!many) {
    MARTLET_ASSIGN(std::vector<Token> tokens, one_prompt(model, prompt, "prompt"));
    out.push_back(std::move(tokens));
    return out;
  }
  if (prompt.get_array().size() * request.n > kMaxPrompts) {
    return bad_field("invalid_value", fmt::format("at most {} answers in one request", kMaxPrompts), "prompt");
  }
  for (const json::value& element : prompt.get_array()) {
    MARTLET_ASSIGN(std::vector<Token> tokens, one_prompt(model, element, fmt::format("prompt[{}]", out.size())));
    out.push_back(std::move(tokens));
  }
  return out;
}

Status check_token_ids(const ServedModel& model, const ApiRequest& request) {
  const int32_t vocabulary = model.engine->vocabulary();
  const std::string text = fmt::format("must be an integer from 0 to {}", vocabulary - 1);
  for (const Token token : request.stop_tokens) {
    if (token >= vocabulary) return bad_field("invalid_token_id", text, "stop_token_ids");
  }
  for (const auto& [token, bias] : request.sampling.logit_bias) {
    if (token >= vocabulary) return bad_field("invalid_token_id", text, "logit_bias");
  }
  return {};
}

}  // namespace martlet::server
