#include "net/http_call.h"

#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "net/http_framing.h"

namespace martlet::net {

// As in http_connection.cpp: every co_await stands alone in its statement (g++ 12).

namespace asio = boost::asio;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using State = HttpResponseParser::State;

namespace {

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr size_t kIdleConnections = 64;
constexpr std::chrono::seconds kIdleTime{15};  // shorter than common servers keep theirs

std::string head_bytes(const HttpCallRequest& request, const HttpPeer& peer) {
  const bool v6 = peer.host().find(':') != std::string::npos;
  std::string out;
  out.reserve(kUsualHeadBytes);
  const auto line = [&](std::initializer_list<std::string_view> parts) { add_head_line(out, parts); };
  const std::string port = peer.port() == (peer.tls() ? 443 : 80) ? "" : ":" + std::to_string(peer.port());
  line({request.method, " ", request.target, " HTTP/1.1"});
  line({"host: ", v6 ? "[" : "", peer.host(), v6 ? "]" : "", port});
  for (const HttpField& field : request.fields) line({field.name, ": ", field.value});
  if (!request.body.empty() || request.method == "POST") {
    line({"content-length: ", std::to_string(request.body.size())});
  }
  line({});
  return out;
}

}  // namespace

std::unique_ptr<Wire> HttpPeer::take() {
  while (!idle_.empty()) {
    Idle last = std::move(idle_.back());
    idle_.pop_back();
    if (Clock::now() - last.since <= kIdleTime && last.wire->is_quiet()) return std::move(last.wire);
  }
  return nullptr;
}

void HttpPeer::keep(std::unique_ptr<Wire> wire) {
  if (idle_.size() < kIdleConnections) idle_.push_back({std::move(wire), Clock::now()});
}

HttpCall::HttpCall(asio::io_context& io, std::shared_ptr<HttpPeer> peer, HttpCallTimeouts timeouts)
    : io_(io), peer_(std::move(peer)), timeouts_(timeouts), deadline_(io.get_executor(), [this] {
        late_ = true;
        close();
      }) {}

void HttpCall::close() {
  if (resolver_) resolver_->cancel();
  if (wire_) wire_->close();
  deadline_.clear();
}

void HttpCall::cancel() {
  cancelled_ = true;
  close();
}

void HttpCall::arm(std::chrono::milliseconds time) {
  deadline_.set(Clock::now() + time, weak_from_this());
}

Error HttpCall::failure(const char* code, const char* text) const {
  if (cancelled_) return {ErrorKind::network, "cancelled", "the call was cancelled", ""};
  if (late_) return {ErrorKind::network, "upstream_timeout", "the upstream did not answer in time", ""};
  return {ErrorKind::network, code, text, ""};
}

asio::awaitable<Status> HttpCall::connect() {
  wire_ = std::make_unique<Wire>(io_);
  boost::system::error_code ec;
  std::vector<tcp::endpoint> endpoints;
  const asio::ip::address address = asio::ip::make_address(peer_->host(), ec);
  if (!ec) {
    endpoints.emplace_back(address, peer_->port());
  } else {
    resolver_.emplace(io_);
    auto [error, found] = co_await resolver_->async_resolve(peer_->host(), std::to_string(peer_->port()), kTuple);
    if (error) co_return failure("upstream_unreachable", "the upstream cannot be reached");
    for (const auto& entry : found) endpoints.push_back(entry.endpoint());
  }
  if (cancelled_ || late_) co_return failure("", "");
  auto [error, endpoint] = co_await asio::async_connect(wire_->socket(), endpoints, kTuple);
  if (error || cancelled_ || late_) {
    co_return failure("upstream_unreachable", "the upstream cannot be reached");
  }
  wire_->socket().set_option(tcp::no_delay(true), ec);
  wire_->socket().non_blocking(true, ec);
  if (peer_->tls()) {
    const boost::system::error_code refused = co_await wire_->secure(*peer_->tls(), peer_->host());
    if (refused || cancelled_ || late_) {
      co_return failure("upstream_unreachable", "the upstream speaks no TLS, or its certificate is not valid");
    }
  }
  co_return Status();
}

// Waits until there are bytes and parses them.
asio::awaitable<Status> HttpCall::receive() {
  const auto [ec, bytes] = co_await wire_->read();
  if (cancelled_ || late_) co_return failure("", "");
  if (!ec && bytes.empty()) co_return Status();
  if (ec) {
    state_ = parser_.end_of_input();
    if (ec == asio::error::eof && state_ == State::done) co_return Status();
    co_return failure("upstream_disconnected", "the upstream closed the connection inside its answer");
  }
  answered_ = true;
  buffer_.append(bytes);
  state_ = parser_.advance(buffer_, body_);
  if (state_ == State::malformed) co_return failure("upstream_bad_answer", "the upstream's answer is malformed");
  co_return Status();
}

// What is not needed for the request's way out, such as its deadline, waits until it is out. An upstream may answer,
// and close, before it has read the whole body: whether that went wrong, its answer says.
asio::awaitable<Result<HttpAnswerHead>> HttpCall::send(HttpCallRequest request) {
  const auto self = shared_from_this();
  const std::string head = head_bytes(request, *peer_);
  for (bool again = true; again;) {
    again = false;
    parser_ = HttpResponseParser();
    state_ = State::head;
    wire_ = peer_->take();
    kept_ = wire_ != nullptr;
    Status status;
    if (!kept_) {
      arm(timeouts_.connect);
      status = co_await connect();
      if (!status) co_return status.error();
    }
    const Wire::Parts left = wire_->write_now({asio::buffer(head), asio::buffer(request.body)});
    arm(timeouts_.first_byte);
    if (asio::buffer_size(left) > 0) {
      [[maybe_unused]] const boost::system::error_code ignored = co_await wire_->write(left);
    }
    if (cancelled_ || late_) status = failure("", "");
    while (status && state_ == State::head) status = co_await receive();
    if (status) break;
    if (cancelled_ || late_ || answered_ || !kept_ || request.method != "GET") co_return status.error();
    // Closed while it was kept: the other kept ones are no better.
    wire_->close();
    peer_->forget();
    again = true;
  }
  deadline_.clear();
  co_return parser_.head();
}

asio::awaitable<Status> HttpCall::read(std::string& bytes) {
  const auto self = shared_from_this();
  while (body_.empty() && state_ == State::body) {
    arm(timeouts_.between);
    Status status = co_await receive();
    if (!status) co_return status;
  }
  deadline_.clear();
  if (body_.empty()) finish();
  bytes.clear();
  std::swap(bytes, body_);
  co_return Status();
}

asio::awaitable<Result<std::string>> HttpCall::read() {
  std::string bytes;
  Status status = co_await read(bytes);
  if (!status) co_return status.error();
  co_return Result<std::string>(std::move(bytes));
}

asio::awaitable<Result<std::string>> HttpCall::read_all(size_t limit) {
  const auto self = shared_from_this();
  while (state_ == State::body && body_.size() <= limit) {
    arm(timeouts_.between);
    Status status = co_await receive();
    if (!status) co_return status.error();
  }
  if (body_.size() > limit) {
    close();
    co_return failure(kAnswerTooLarge, "the upstream's answer is larger than it may be here");
  }
  deadline_.clear();
  finish();
  co_return std::exchange(body_, {});
}

void HttpCall::finish() {
  if (!wire_ || !wire_->socket().is_open()) return;
  if (state_ == State::done && parser_.keep_alive() && buffer_.empty()) {
    peer_->keep(std::move(wire_));
  } else {
    close();
  }
}

}  // namespace martlet::net
