#pragma once

// An HTTP(S) client for downloads, on libcurl: proxies and certificates as the system has them, redirects followed
// here, under rules, because where a redirect leads is the other side's choice.

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "base/function_ref.h"
#include "net/address.h"

namespace martlet {

// The server that a user chose to talk to. Shared by the clients that download from it; thread-safe.
// The token goes to this origin (scheme, host and port) only. Other origins, which only redirects lead to, must not be
// a step down from https, and must lie on the public internet or in the same class of network as the endpoint itself.
struct Endpoint {
  // `url`: http or https. Errors: ErrorKind::usage, "bad_endpoint".
  static Result<std::shared_ptr<Endpoint>> create(const std::string& url, const std::string& token);

  std::string url, origin, token;
  std::atomic<int> reach{-1};  // AddressClass of the address that answered for it; -1: not connected yet
};

struct FetchRequest {
  std::string url;
  bool head = false;
  bool follow_away = true;  // false: a redirect to another origin is returned, not followed
  std::string range;        // "0-99"; empty: all
};

struct FetchResponse {
  int status = 0;
  std::string url;                             // that answered, after redirects
  std::map<std::string, std::string> headers;  // names in lower case

  std::string header(const std::string& name) const;  // empty when absent
  // Content-Length, when there is a valid one.
  std::optional<uint64_t> length() const;
};

// One connection, kept open between requests. Not thread-safe.
class HttpClient {
 public:
  explicit HttpClient(std::shared_ptr<Endpoint> endpoint);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  using OnHead = FunctionRef<Status(const FetchResponse&)>;
  using OnBody = FunctionRef<Status(std::span<const std::byte>)>;

  // `on_head` sees the response before its body, which then arrives in pieces; an error from either ends the transfer
  // and is returned. Errors are ErrorKind::network: "network_error", "short_body" (fewer bytes than announced) and
  // "server_error" (429 or 5xx) may pass when tried again: is_transient();
  // "redirect_refused", "unauthorized" (401, 403), "not_found" (404, 410), "http_status" and "bad_response" will not.
  Result<FetchResponse> fetch(const FetchRequest& request, OnHead on_head, OnBody on_body);
  // The whole body, at most `limit` bytes ("bad_response" beyond).
  Result<std::string> fetch_text(const std::string& url, size_t limit);

 private:
  struct Transfer;
  Result<FetchResponse> fetch_once(const FetchRequest& request, OnHead on_head, OnBody on_body);
  Status check_allowed(const std::string& url) const;

  std::shared_ptr<Endpoint> endpoint_;
  void* curl_;
};

inline bool is_transient(const Error& error) {
  return error.code == "network_error" || error.code == "short_body" || error.code == "server_error";
}

// "scheme://host:port" with the default port written out; empty when `url` is not http or https or holds a user name.
std::string origin_of(const std::string& url);
// The URL that `location` means on a page at `base`; empty when it is none.
std::string join_url(const std::string& base, const std::string& location);
// `text` with everything but unreserved characters and "/" percent-encoded.
std::string encode_path(const std::string& text);

}  // namespace martlet
