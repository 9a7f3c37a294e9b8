#include "server/access.h"

#include <algorithm>

#include "net/http_server.h"
#include "server/origin.h"

namespace martlet::server {
namespace {

bool is_json(std::string_view content_type) {
  constexpr std::string_view kJson = "application/json";
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  if (type.size() < kJson.size() || type.find_first_not_of(" \t", kJson.size()) != type.npos) return false;
  return std::equal(kJson.begin(), kJson.end(), type.begin(), [](char a, char b) { return a == (b | 0x20) || a == b; });
}

}  // namespace

Access::Access(const std::string& host, const std::vector<std::string>& keys)
    : keys_(keys), address_(net::is_address_host(host)), local_only_(net::is_loopback_host(host)) {}

Status Access::check() const {
  if (!address_) return Error{ErrorKind::usage, "bad_host", "the host must be an IP address or localhost", "--host"};
  if (local_only_ || !keys_.empty()) return {};
  return Error{ErrorKind::usage, "key_needed", "others could reach this server: give --api-key, or listen on 127.0.0.1",
               "--host"};
}

// Who may speak at all comes before what they say: without a key, every path looks the same.
std::optional<net::HttpResponse> Access::screen(const net::HttpRequest& head, bool open) const {
  if (!keys_.empty() && !open && !keys_.accepts_authorization(head.field("authorization"))) return unauthorized();
  const bool host = !head.has("host") || is_local_host(head.field("host"));
  const bool origin = !head.has("origin") || is_local_origin(head.field("origin"));
  if (local_only_ && !(host && origin)) {
    return net::error_response(403, "origin_not_allowed", "Requests by other names or from other pages are refused.");
  }
  return std::nullopt;
}

net::HttpResponse unauthorized() {
  net::HttpResponse out =
      net::error_response(401, "invalid_api_key", "A valid API key is needed: Authorization: Bearer KEY.");
  out.fields.push_back({"www-authenticate", "Bearer"});
  return out;
}

std::optional<net::HttpResponse> screen_body(const net::HttpRequest& head, bool json) {
  const std::string_view encoding = head.field("content-encoding");
  if (!encoding.empty() && encoding != "identity") {
    return net::error_response(415, "unsupported_encoding", "The body must not be compressed.");
  }
  if (json && !is_json(head.field("content-type"))) {
    return net::error_response(415, "unsupported_media_type", "The body must be application/json.");
  }
  return std::nullopt;
}

}  // namespace martlet::server
