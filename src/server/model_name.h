#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace martlet::server {

// A model's name from a request's path: percent escapes decoded. Names never reach a file system, and those that look
// like a walk through one (`..`, `\`, an absolute path, an escaped dot) are refused: `invalid_path`.
Result<std::string> decode_model_name(std::string_view escaped);
Status check_model_name(std::string_view name);
Error model_not_found();

}  // namespace martlet::server
