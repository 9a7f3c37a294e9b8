#pragma once

// How answers look on the wire.

#include <initializer_list>
#include <string>
#include <string_view>

#include "net/http_message.h"

namespace martlet::net {

inline constexpr size_t kUsualHeadBytes = 512;  // more than most heads have

// Adds one line of a head: `parts` one behind the other.
void add_head_line(std::string& head, std::initializer_list<std::string_view> parts);

enum class Framing { length, chunked, until_close };

// Status line and fields up to the empty line. `Framing::length` states the size of response.body.
std::string response_head(const HttpResponse& response, Framing framing, bool keep_alive);
std::string chunk(std::string_view bytes);  // not empty: an empty chunk ends a body
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace martlet::net
