#pragma once

// An OpenAI-compatible server: chat completions, streamed, over HTTP.

#include <memory>
#include <optional>
#include <string>

#include "bench/target.h"
#include "net/http_call.h"

namespace martlet::bench {

struct Endpoint {
  std::string host;
  uint16_t port = 0;
  std::string base;          // path before /v1, mostly empty
  std::string model;         // as this server calls it; empty: the first that it lists
  std::string api_key;       // may be empty
  std::string request = {};  // what else each request says, as a JSON object; may be empty
};

// "http://host[:port][/base][/v1]". Errors: ErrorKind::usage `invalid_value`.
Result<Endpoint> parse_endpoint(const std::string& url, const std::string& where);

// Where the server counts no tokens, each piece of text that is not empty counts as one. Each request has a
// connection of its own: a server may close one that it kept just when the next request is under way.
class HttpInstance : public Instance {
 public:
  explicit HttpInstance(Endpoint endpoint);
  boost::asio::awaitable<Measurement> ask(boost::asio::io_context& io, const Ask& what,
                                          std::chrono::steady_clock::time_point begin) override;

 private:
  Endpoint endpoint_;
};

// The name of the first model that /v1/models lists; nothing while it answers otherwise. Runs the request to its end, a
// few seconds at most.
std::optional<std::string> first_model(const Endpoint& endpoint);

// Whether a GET of `path` is answered with 200 within a few seconds.
bool answers(const Endpoint& endpoint, const std::string& path);

// A server that runs already.
class UrlTarget : public Target {
 public:
  UrlTarget(EngineInfo info, Endpoint endpoint) : Target(std::move(info)), endpoint_(std::move(endpoint)) {}
  bool starts() const override { return false; }
  // Errors: ErrorKind::network `engine_unreachable`.
  Result<std::unique_ptr<Instance>> start(const StopAsked& stop) override;

 private:
  Endpoint endpoint_;
};

}  // namespace martlet::bench
