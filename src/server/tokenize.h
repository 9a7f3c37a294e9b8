#pragma once

#include <optional>
#include <string>

#include <boost/json/value.hpp>

#include "server/served_model.h"

namespace martlet::server {

// A body of one of the two routes, checked but for what depends on the model.
struct TokenizeRequest {
  std::string model = "default";
  std::optional<std::string> content;
  boost::json::value tokens;
  bool add_special_tokens = false;
};
Result<TokenizeRequest> parse_tokenize(boost::json::object body);
Result<TokenizeRequest> parse_detokenize(boost::json::object body);

// {"content" (or "prompt"), "add_special_tokens", "model"} -> {"tokens", "count", "max_model_len"}
Result<boost::json::object> tokenize(const ServedModel& model, const TokenizeRequest& request);
// {"tokens", "model"} -> {"content", "prompt"}: the same text under the names of both common APIs
Result<boost::json::object> detokenize(const ServedModel& model, const TokenizeRequest& request);

}  // namespace martlet::server
