#pragma once

// The HTTP/1.1 server: one I/O thread for any number of connections, and a few workers for what takes longer than a
// moment. Every limit is on by default.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "net/exchange.h"
#include "net/http_message.h"
#include "net/http_parser.h"

namespace boost::asio {
class io_context;
}

namespace martlet::net {

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // an IP address, or "localhost"
  uint16_t port = 8080;            // 0: any free one
  HttpParserLimits parser;
  int max_connections = 256;  // beyond: 503 with Retry-After
  int max_large_bodies = 16;  // bodies above 64 KiB that may be in memory at once; beyond: 503 with Retry-After
  int workers = 2;
  size_t stream_buffer = 256u << 10;                // bytes waiting for a peer that does not read
  std::chrono::milliseconds head_timeout{10'000};   // from the first byte, or from the connection's start: 408
  std::chrono::milliseconds body_timeout{60'000};   // for the whole body: 408
  std::chrono::milliseconds write_timeout{30'000};  // for each 16 KiB of an answer: the exchange is closed
  std::chrono::milliseconds idle_timeout{75'000};   // between two requests of a connection
  std::chrono::milliseconds filler_interval{10'000};
};

// What answers the requests. Called on the I/O thread: nothing here may block.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Sees the head before the body is read; a response refuses the request.
  virtual std::optional<HttpResponse> screen(const HttpRequest& head) = 0;
  // Answers through the exchange, now or later, from any thread.
  virtual void handle(std::shared_ptr<Exchange> exchange) = 0;
  // After each answer, whoever gave it; null when there was no readable request. `status` 499: the peer left first.
  virtual void finished(const HttpRequest* request, int status, std::chrono::nanoseconds took) = 0;
};

class HttpServer {
 public:
  // Binds; peers may connect and wait. `handler` must outlive the server.
  // Errors: ErrorKind::usage `bad_host`; ErrorKind::network `cannot_listen`.
  static Result<std::unique_ptr<HttpServer>> open(const HttpServerOptions& options, HttpHandler& handler);
  ~HttpServer();
  // Starts to answer. Once.
  void run();

  uint16_t port() const;
  std::string address() const;  // "http://127.0.0.1:8080"
  int connections() const;
  // Runs `task` on the I/O thread, or on a worker. Thread-safe; tasks of one caller keep their order on the I/O thread.
  // Where there is no memory post() tries until there is; work() throws std::bad_alloc.
  void post(std::function<void()> task);
  void work(std::function<void()> task);
  // The I/O thread's context, for handlers that are clients themselves. What they start on it must end, or be owned by
  // it, before the server is destroyed.
  boost::asio::io_context& io();
  // Closes the listener and idle connections, waits up to `grace` for running answers, then closes what is left.
  void stop(std::chrono::milliseconds grace);

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// True for what a server can be bound to: an IP address, or "localhost".
bool is_address_host(const std::string& host);
// True when only this machine can reach a server bound to `host`.
bool is_loopback_host(const std::string& host);

}  // namespace martlet::net
