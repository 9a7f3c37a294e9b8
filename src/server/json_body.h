#pragma once

#include <string_view>

#include <boost/json/value.hpp>

#include "base/error.h"

namespace martlet::server {

// Parses a request body strictly: one JSON object in valid UTF-8, at most 64 levels deep, no key twice, no number that
// a double cannot hold, at most 2^20 values. Errors (ErrorKind::request): `invalid_json`, `json_too_deep`,
// `json_too_large`, `invalid_utf8`, each with the offset. `memory`: what the object is built in.
Result<boost::json::object> parse_json_body(std::string_view body, boost::json::storage_ptr memory = {});

}  // namespace martlet::server
