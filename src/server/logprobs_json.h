#pragma once

#include <vector>

#include <boost/json/value.hpp>

#include "server/choice_text.h"
#include "text/tokenizer.h"

namespace martlet::server {

// {"content": [{"token", "logprob", "bytes", "top_logprobs": [...]}], "refusal": null}
boost::json::value chat_logprobs(const Tokenizer& tokenizer, const std::vector<ScoredToken>& tokens);
// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}, and as extensions "token_ids" and "bytes".
boost::json::value text_logprobs(const Tokenizer& tokenizer, const std::vector<ScoredToken>& tokens);

}  // namespace martlet::server
