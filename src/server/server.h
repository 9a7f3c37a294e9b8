#pragma once

#include <memory>
#include <string>
#include <vector>

#include "net/http_server.h"
#include "server/served_model.h"

namespace martlet::server {

struct ServerOptions {
  net::HttpServerOptions http;
  std::vector<std::string> api_keys;  // empty: whoever reaches it may use it
  ApiPolicy policy;
  bool json_log = true;
  bool log_requests = true;
};

// The API server. It listens from the start; until a model is there, it says that it is loading.
class Server {
 public:
  // Errors: ErrorKind::usage `key_needed` when others than this machine could reach a server without keys, and
  // whatever net::HttpServer::open says.
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options);
  ~Server();

  // The first model is "default". Thread-safe.
  void serve(std::shared_ptr<const ServedModel> model);
  // New requests get 503, running ones finish or end with an error after `seconds`; then the server stops.
  void drain(double seconds);
  // True when an engine cannot go on (its model file changed).
  bool failed() const;
  void note(std::string_view text);  // into the log: fixed words
  std::string address() const;

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace martlet::server
