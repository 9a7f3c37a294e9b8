#include "net/http_call.h"

#include <array>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

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
constexpr size_t kReadSize = 64u << 10;

// A thousand waiting calls share one buffer: it is filled and emptied between two waits.
std::array<char, kReadSize>& scratch() {
  static thread_local std::array<char, kReadSize> bytes;
  return bytes;
}

bool is_quiet(tcp::socket& socket) {
  char byte;
  boost::system::error_code ec;
  socket.receive(asio::buffer(&byte, 1), asio::socket_base::message_peek, ec);
  return ec == asio::error::would_block || ec == asio::error::try_again;
}

std::string head_bytes(const HttpCallRequest& request, const HttpPeer& peer) {
  const bool v6 = peer.host().find(':') != std::string::npos;
  std::string out = request.method + " " + request.target + " HTTP/1.1\r\nhost: ";
  out += (v6 ? "[" + peer.host() + "]" : peer.host()) + ":" + std::to_string(peer.port()) + "\r\n";
  for (const HttpField& field : request.fields) out += field.name + ": " + field.value + "\r\n";
  if (!request.body.empty() || request.method == "POST") {
    out += "content-length: " + std::to_string(request.body.size()) + "\r\n";
  }
  return out + "\r\n";
}

}  // namespace

bool HttpPeer::take(tcp::socket& out) {
  while (!idle_.empty()) {
    Idle last = std::move(idle_.back());
    idle_.pop_back();
    if (Clock::now() - last.since > kIdleTime || !is_quiet(last.socket)) continue;
    out = std::move(last.socket);
    return true;
  }
  return false;
}

void HttpPeer::keep(tcp::socket socket) {
  if (idle_.size() < kIdleConnections) idle_.push_back({std::move(socket), Clock::now()});
}

HttpCall::HttpCall(asio::io_context& io, std::shared_ptr<HttpPeer> peer, HttpCallTimeouts timeouts)
    : peer_(std::move(peer)), timeouts_(timeouts), socket_(io), resolver_(io), timer_(io) {}

void HttpCall::close() {
  boost::system::error_code ignored;
  resolver_.cancel();
  socket_.close(ignored);
  timer_.cancel();
}

void HttpCall::cancel() {
  cancelled_ = true;
  close();
}

// One timer serves every wait: a later arm() moves it.
void HttpCall::arm(std::chrono::milliseconds time) {
  timer_.expires_after(time);
  timer_.async_wait([self = weak_from_this()](boost::system::error_code ec) {
    const auto call = self.lock();
    if (ec || !call || call->timer_.expiry() > Clock::now()) return;
    call->late_ = true;
    call->close();
  });
}

Error HttpCall::failure(const char* code, const char* text) const {
  if (cancelled_) return {ErrorKind::network, "cancelled", "the call was cancelled", ""};
  if (late_) return {ErrorKind::network, "upstream_timeout", "the upstream did not answer in time", ""};
  return {ErrorKind::network, code, text, ""};
}

asio::awaitable<Status> HttpCall::connect() {
  boost::system::error_code ec;
  std::vector<tcp::endpoint> endpoints;
  const asio::ip::address address = asio::ip::make_address(peer_->host(), ec);
  if (!ec) {
    endpoints.emplace_back(address, peer_->port());
  } else {
    auto [error, found] = co_await resolver_.async_resolve(peer_->host(), std::to_string(peer_->port()), kTuple);
    if (error) co_return failure("upstream_unreachable", "the upstream cannot be reached");
    for (const auto& entry : found) endpoints.push_back(entry.endpoint());
  }
  if (cancelled_ || late_) co_return failure("", "");
  auto [error, endpoint] = co_await asio::async_connect(socket_, endpoints, kTuple);
  if (error || cancelled_ || late_) {
    co_return failure("upstream_unreachable", "the upstream cannot be reached");
  }
  socket_.set_option(tcp::no_delay(true), ec);
  socket_.non_blocking(true, ec);
  co_return Status();
}

// An upstream may answer, and close, before it has read the whole body: whether that went wrong, its answer says.
asio::awaitable<Status> HttpCall::write(const HttpCallRequest& request) {
  const std::string head = head_bytes(request, *peer_);
  const std::array<asio::const_buffer, 2> parts{asio::buffer(head), asio::buffer(request.body)};
  co_await asio::async_write(socket_, parts, kTuple);
  if (cancelled_ || late_) co_return failure("", "");
  co_return Status();
}

// Waits until there are bytes and parses them.
asio::awaitable<Status> HttpCall::receive() {
  boost::system::error_code ec;
  std::array<char, kReadSize>& bytes = scratch();
  size_t size = socket_.read_some(asio::buffer(bytes), ec);
  if (ec == asio::error::would_block || ec == asio::error::try_again) {
    const auto [waited] = co_await socket_.async_wait(tcp::socket::wait_read, kTuple);
    ec = waited;
    if (!ec) size = socket_.read_some(asio::buffer(bytes), ec);
  }
  if (ec == asio::error::would_block || ec == asio::error::try_again) co_return Status();
  if (cancelled_ || late_) co_return failure("", "");
  if (ec) {
    state_ = parser_.end_of_input();
    if (ec == asio::error::eof && state_ == State::done) co_return Status();
    co_return failure("upstream_disconnected", "the upstream closed the connection inside its answer");
  }
  answered_ = true;
  buffer_.append(bytes.data(), size);
  state_ = parser_.advance(buffer_, body_);
  if (state_ == State::malformed) co_return failure("upstream_bad_answer", "the upstream's answer is malformed");
  co_return Status();
}

asio::awaitable<Status> HttpCall::read_head() {
  while (state_ == State::head) {
    Status status = co_await receive();
    if (!status) co_return status;
  }
  co_return Status();
}

asio::awaitable<Result<HttpAnswerHead>> HttpCall::send(HttpCallRequest request) {
  const auto self = shared_from_this();
  for (bool again = true; again;) {
    again = false;
    parser_ = HttpResponseParser();
    state_ = State::head;
    arm(timeouts_.connect);
    kept_ = peer_->take(socket_);
    Status status;
    if (!kept_) status = co_await connect();
    if (!status) co_return status.error();
    arm(timeouts_.first_byte);
    status = co_await write(request);
    if (status) status = co_await read_head();
    if (status) break;
    if (cancelled_ || late_ || answered_ || !kept_ || request.method != "GET") co_return status.error();
    // Closed while it was kept: the other kept ones are no better.
    boost::system::error_code ignored;
    socket_.close(ignored);
    peer_->forget();
    again = true;
  }
  timer_.cancel();
  co_return parser_.head();
}

asio::awaitable<Result<std::string>> HttpCall::read() {
  const auto self = shared_from_this();
  while (body_.empty() && state_ == State::body) {
    arm(timeouts_.between);
    Status status = co_await receive();
    if (!status) co_return status.error();
  }
  timer_.cancel();
  if (body_.empty()) finish();
  co_return std::exchange(body_, {});
}

asio::awaitable<Result<std::string>> HttpCall::read_all(size_t limit) {
  std::string out;
  for (;;) {
    Result<std::string> piece = co_await read();
    if (!piece || piece->empty()) {
      if (piece) co_return out;
      co_return piece.error();
    }
    if (out.size() + piece->size() > limit) {
      close();
      co_return failure(kAnswerTooLarge, "the upstream's answer is larger than it may be here");
    }
    out += *piece;
  }
}

void HttpCall::finish() {
  if (!socket_.is_open()) return;
  if (state_ == State::done && parser_.keep_alive() && buffer_.empty()) {
    peer_->keep(std::move(socket_));
  } else {
    close();
  }
}

}  // namespace martlet::net
