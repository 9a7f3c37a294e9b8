#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "chat/chat_template.h"
#include "martlet/engine.h"
#include "server/api_request.h"
#include "text/tokenizer.h"

namespace martlet::server {

// A model that the server answers with.
struct ServedModel {
  std::string name;
  int64_t created = 0;  // seconds since 1970: when it was loaded
  std::shared_ptr<const Tokenizer> tokenizer;
  Result<std::shared_ptr<const ChatTemplate>> chat_template;  // or why there is none
  std::unique_ptr<Engine> engine;
};

// The token ids that the engine shall continue. Errors: ErrorKind::request by field; `template_unsupported` when the
// model has no usable chat template.
Result<std::vector<Token>> chat_prompt(const ServedModel& model, const ApiRequest& request);
// One for each prompt of the request: a string, an array of strings, of token ids, or of arrays of token ids.
Result<std::vector<std::vector<Token>>> text_prompts(const ServedModel& model, const ApiRequest& request);

// The token ids of stop_token_ids and logit_bias lie in the vocabulary, or `invalid_token_id`.
Status check_token_ids(const ServedModel& model, const ApiRequest& request);

}  // namespace martlet::server
