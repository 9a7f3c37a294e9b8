#pragma once

// Who may speak to a server at all: keys, and names that only this machine's programs use.

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "net/http_message.h"
#include "server/api_keys.h"

namespace martlet::server {

class Access {
 public:
  // `host`: the address that the server listens on.
  Access(const std::string& host, const std::vector<std::string>& keys);

  // Errors: ErrorKind::usage `key_needed` when others than this machine could reach a server without keys.
  Status check() const;
  // The refusal of a request by its head; `open`: its route needs no key.
  std::optional<net::HttpResponse> screen(const net::HttpRequest& head, bool open) const;

  const ApiKeys& keys() const { return keys_; }

 private:
  ApiKeys keys_;
  bool address_, local_only_;
};

// The answer to a key that is missing or wrong.
net::HttpResponse unauthorized();
// The answer to a body that is compressed, or no JSON where `json` says that it is to be.
std::optional<net::HttpResponse> screen_body(const net::HttpRequest& head, bool json);

}  // namespace martlet::server
