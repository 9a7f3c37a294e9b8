#pragma once

#include <chrono>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "net/http_server.h"
#include "net/memory_pressure.h"
#include "server/memory_report.h"
#include "server/model_manager.h"

namespace martlet::server {

struct ServerOptions {
  net::HttpServerOptions http;
  std::vector<std::string> api_keys;  // empty: whoever reaches it may use it
  ApiPolicy policy;
  int64_t memory = std::numeric_limits<int64_t>::max();  // bytes: what all models together may take
  KeepAlive keep_alive = kKeepForever;                   // of models that requests do not say it for
  std::shared_ptr<net::PressureSource> pressure;         // null: none
  std::chrono::milliseconds pressure_interval{500};
  bool json_log = true;
  bool log_requests = true;
  bool live_line = false;  // the log shares a terminal with a line that is redrawn
};

// The API server. It listens from the start; until a model is there, it says that it is loading.
class Server {
 public:
  // Errors: ErrorKind::usage `key_needed` when others than this machine could reach a server without keys, and
  // whatever net::HttpServer::open says.
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options);
  ~Server();

  // The models that it may be asked for; open() says that they are all there. Thread-safe.
  ModelManager& models();
  void open();
  // One that is loaded and stays. Thread-safe.
  void serve(std::shared_ptr<const ServedModel> model);
  // New requests get 503, running ones finish or end with an error after `seconds`; then the server stops.
  void drain(double seconds);
  // Why an engine cannot go on (its model file changed, its device is lost), when one cannot.
  std::optional<Error> failure() const;
  void note(std::string_view text);  // into the log: fixed words
  EngineStats stats() const;         // of all models
  MemoryReport memory() const;
  std::string address() const;

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace martlet::server
