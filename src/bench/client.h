#pragma once

// One measured request: an OpenAI-compatible chat completion, streamed, over HTTP. Costs a few microseconds a token, so
// that thirty-two streams take no core from what is measured.

#include <memory>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "bench/measurement.h"
#include "net/http_call.h"

namespace martlet::bench {

struct Endpoint {
  std::shared_ptr<net::HttpPeer> peer;
  std::string base;     // path before /v1, mostly empty
  std::string model;    // as this server calls it
  std::string api_key;  // may be empty
};

struct Ask {
  std::string prompt;
  int max_tokens = 0;
};

// Times are seconds since `begin`; `offered` and `prompt` are the caller's to set. A refusal or a broken stream is in
// Measurement::error. Where the server counts no tokens, each piece that is not empty counts as one.
boost::asio::awaitable<Measurement> ask(boost::asio::io_context& io, const Endpoint& endpoint, Ask what,
                                        std::chrono::steady_clock::time_point begin);

}  // namespace martlet::bench
