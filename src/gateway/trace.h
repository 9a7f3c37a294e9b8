#pragma once

// Names of a request on its way: its id, and the W3C trace context (https://www.w3.org/TR/trace-context/).

#include <string>
#include <string_view>
#include <vector>

#include "net/http_message.h"

namespace martlet::gateway {

struct Trace {
  std::string request_id;   // the client's x-request-id where it is fit to be passed on; else a new one
  std::string traceparent;  // the client's trace with a span of ours, or a new trace
  std::string tracestate;   // the client's, with its traceparent only
};

Trace trace_of(const net::HttpRequest& request);

}  // namespace martlet::gateway
