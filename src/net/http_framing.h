#pragma once

// How answers look on the wire.

#include <string>
#include <string_view>

#include "net/http_message.h"

namespace martlet::net {

enum class Framing { length, chunked, until_close };

// Status line and fields up to the empty line. `Framing::length` states the size of response.body.
std::string response_head(const HttpResponse& response, Framing framing, bool keep_alive);
std::string chunk(std::string_view bytes);  // not empty: an empty chunk ends a body
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace martlet::net
