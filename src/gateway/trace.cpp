#include "gateway/trace.h"

#include <algorithm>
#include <cctype>

#include "net/random_hex.h"

namespace martlet::gateway {
namespace {

bool all_of_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isdigit(c) || (c >= 'a' && c <= 'f'); });
}

bool all_zero(std::string_view text) {
  return text.find_first_not_of('0') == text.npos;
}

// "00-" trace id (32) "-" parent id (16) "-" flags (2)
bool is_traceparent(std::string_view text) {
  if (text.size() != 55 || text.substr(0, 3) != "00-" || text[35] != '-' || text[52] != '-') return false;
  const std::string_view trace = text.substr(3, 32), parent = text.substr(36, 16);
  return all_of_hex(trace) && all_of_hex(parent) && all_of_hex(text.substr(53)) && !all_zero(trace) &&
         !all_zero(parent);
}

bool is_request_id(std::string_view text) {
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

}  // namespace

Trace trace_of(const net::HttpRequest& request) {
  Trace out;
  const std::string_view id = request.field("x-request-id"), parent = request.field("traceparent");
  out.request_id = is_request_id(id) ? std::string(id) : net::random_hex(16);
  const bool traced = is_traceparent(parent) && request.count("traceparent") == 1;
  const std::string trace = traced ? std::string(parent.substr(3, 32)) : net::random_hex(16);
  const std::string flags = traced ? std::string(parent.substr(53)) : "00";
  out.traceparent = "00-" + trace + "-" + net::random_hex(8) + "-" + flags;
  const std::string_view state = request.field("tracestate");
  const bool clean = std::all_of(state.begin(), state.end(), [](unsigned char c) { return c >= 0x20 && c < 0x7f; });
  if (traced && clean && state.size() <= 512) out.tracestate = state;
  return out;
}

}  // namespace martlet::gateway
