#pragma once

// One outgoing HTTP/1.1 request and its answer as it streams in: what a proxy needs. Everything here runs on the one
// thread of its io_context.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/error.h"
#include "net/deadline.h"
#include "net/http_response_parser.h"
#include "net/wire.h"

namespace martlet::net {

// The connections to one server that are kept between requests.
class HttpPeer {
 public:
  // `tls`: how it is trusted; null: plain http.
  HttpPeer(std::string host, uint16_t port, std::shared_ptr<TlsClient> tls = nullptr)
      : host_(std::move(host)), port_(port), tls_(std::move(tls)) {}

  const std::string& host() const { return host_; }
  uint16_t port() const { return port_; }
  TlsClient* tls() const { return tls_.get(); }
  // A kept connection on which the peer has neither spoken nor hung up; null when there is none.
  std::unique_ptr<Wire> take();
  void keep(std::unique_ptr<Wire> wire);
  void forget() { idle_.clear(); }

 private:
  struct Idle {
    std::unique_ptr<Wire> wire;
    std::chrono::steady_clock::time_point since;
  };
  std::string host_;  // a name or an IP address
  uint16_t port_;
  std::shared_ptr<TlsClient> tls_;
  std::vector<Idle> idle_;
};

struct HttpCallTimeouts {
  std::chrono::milliseconds connect{2'000};
  std::chrono::milliseconds first_byte{120'000};  // from the request's last byte to the answer's head
  std::chrono::milliseconds between{60'000};      // between two reads of the body
};

struct HttpCallRequest {
  std::string method = "GET", target = "/";
  std::vector<HttpField> fields;  // beyond host, content-length and connection
  std::string_view body;          // must live until send() returns
};

// Errors of all calls are ErrorKind::network: `upstream_unreachable` (nobody listens, no such name,
// no valid certificate),
// `upstream_timeout`, `upstream_disconnected` (closed inside the answer), `upstream_bad_answer` (no HTTP),
// `cancelled` (by cancel()).
inline constexpr const char* kAnswerTooLarge = "upstream_answer_too_large";

class HttpCall : public std::enable_shared_from_this<HttpCall> {
 public:
  HttpCall(boost::asio::io_context& io, std::shared_ptr<HttpPeer> peer, HttpCallTimeouts timeouts);

  // Sends the request and waits for the answer's head. Once. When a kept connection breaks before a byte of an answer,
  // a GET is sent again on a fresh one; of anything else the peer may have begun to act on it, so that is the caller's
  // call.
  boost::asio::awaitable<Result<HttpAnswerHead>> send(HttpCallRequest request);
  // The next bytes of the body, at most 64 KiB beyond what came with the head; empty at its end. The second replaces
  // what `bytes` holds and uses its memory: for whoever reads much and often.
  boost::asio::awaitable<Result<std::string>> read();
  boost::asio::awaitable<Status> read(std::string& bytes);
  // The whole body, kAnswerTooLarge when it is larger than `limit`.
  boost::asio::awaitable<Result<std::string>> read_all(size_t limit);
  // The request went out on a kept connection, which the peer may just have been closing.
  bool was_kept() const { return kept_; }
  // Closes the connection now; whoever waits gets `cancelled`.
  void cancel();

 private:
  boost::asio::awaitable<Status> connect();
  boost::asio::awaitable<Status> receive();
  void arm(std::chrono::milliseconds time);
  void close();
  Error failure(const char* code, const char* text) const;
  void finish();

  boost::asio::io_context& io_;
  std::shared_ptr<HttpPeer> peer_;
  const HttpCallTimeouts timeouts_;
  std::unique_ptr<Wire> wire_;                              // null before and after
  std::optional<boost::asio::ip::tcp::resolver> resolver_;  // while a name is looked up
  Deadline deadline_;
  HttpResponseParser parser_;
  HttpResponseParser::State state_ = HttpResponseParser::State::head;
  std::string buffer_, body_;  // received and not parsed; parsed and not handed out
  bool kept_ = false, answered_ = false, late_ = false, cancelled_ = false;
};

}  // namespace martlet::net
