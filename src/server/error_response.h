#pragma once

// How an Error of any room looks to an API client.

#include <string>

#include "base/error.h"
#include "net/http_message.h"

namespace martlet::server {

int http_status(const Error& error);
// The fixed text of the error; `where` becomes `param` for request errors and is withheld otherwise (it may be a path).
net::HttpResponse error_response(const Error& error);
std::string error_body(const Error& error);  // for the error event of a stream

// A request error about one field of the body, whose name is shown up to 100 bytes.
Error bad_field(std::string code, std::string text, std::string_view field);

}  // namespace martlet::server
