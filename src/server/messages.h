#pragma once

#include <string>

#include <boost/json/value.hpp>

#include "base/error.h"

namespace martlet::server {

// The messages of a chat as its template reads them: role and content, the content one text (text parts are joined by
// line breaks). Errors point at `messages[i].role` and the like; what no template gets to see is refused, not dropped.
Result<boost::json::array> parse_messages(boost::json::value value, const std::string& name);

}  // namespace martlet::server
