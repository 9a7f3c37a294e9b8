#pragma once

// Server-sent events: the framing of streamed answers.

#include <string>
#include <string_view>

#include "net/http_message.h"

namespace martlet::net {

inline HttpResponse sse_head() {
  HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.fields = {{"cache-control", "no-cache"}, {"x-accel-buffering", "no"}};  // proxies must not collect the stream
  return head;
}

// `data` holds no line break (JSON has none).
inline std::string sse_event(std::string_view data) {
  std::string out = "data: ";
  out += data;
  return out += "\n\n";
}

inline constexpr std::string_view kSseComment = ": waiting\n\n";
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

}  // namespace martlet::net
