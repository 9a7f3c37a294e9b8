#pragma once

// Which requests the server knows: a table.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "net/exchange.h"
#include "net/http_message.h"

namespace martlet::server {

class Handlers;

struct Route {
  const char* method;
  const char* path;  // a last "*" stands for any rest that is not empty
  bool open;         // answers without a key
  bool needs_model;  // 503 while the model loads or the server drains
  bool json;         // has a JSON body
  void (Handlers::*handle)(std::shared_ptr<net::Exchange>);
};

std::span<const Route> routes();

struct Match {
  const Route* route = nullptr;  // null: `allow` is empty (404) or names the methods of the path (405)
  std::string allow;
};
Match match_route(std::string_view method, std::string_view path);
// The name of a request's route for logs and metrics; "other" for whatever the table does not hold.
const char* route_name(const net::HttpRequest* request);

}  // namespace martlet::server
