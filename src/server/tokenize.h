#pragma once

#include <memory>
#include <vector>

#include <boost/json/value.hpp>

#include "server/served_model.h"

namespace martlet::server {

using ServedModels = std::vector<std::shared_ptr<const ServedModel>>;

// {"content" (or "prompt"), "add_special_tokens", "model"} -> {"tokens", "count", "max_model_len"}
Result<boost::json::object> tokenize_request(const ServedModels& models, boost::json::object body);
// {"tokens", "model"} -> {"content", "prompt"}: the same text under the names of both common APIs
Result<boost::json::object> detokenize_request(const ServedModels& models, boost::json::object body);

}  // namespace martlet::server
