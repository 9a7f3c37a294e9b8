#include "net/http_connection.h"

#include <array>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "net/http_framing.h"

namespace martlet::net {

namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr int kPeerLeft = 499;
constexpr size_t kReadSize = 16u << 10;
constexpr size_t kWriteSlice = 16u << 10;
constexpr size_t kReadAhead = 64u << 10;       // of a next request, while the present one is answered
constexpr size_t kLingerBytes = 32u << 20;     // read and thrown away so that a refused peer sees its answer
constexpr std::chrono::seconds kLingerTime{2};

}  // namespace

HttpConnection::HttpConnection(asio::ip::tcp::socket socket, const HttpServerOptions& options, HttpHandler& handler)
    : socket_(std::move(socket)), wake_(socket_.get_executor()), options_(options), handler_(handler) {
  boost::system::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  // The kernel's buffer counts too: a reader that stops must be noticed before megabytes have gone its way.
  socket_.set_option(asio::socket_base::send_buffer_size(64 << 10), ignored);
  socket_.non_blocking(true, ignored);
}

void HttpConnection::stop() {
  stopping_ = true;
  if (idle_) abort();
}

void HttpConnection::abort() {
  boost::system::error_code ignored;
  socket_.close(ignored);
  wake_.cancel();
}

asio::awaitable<void> HttpConnection::run() {
  while (co_await serve_one()) {
    if (stopping_) break;
  }
  co_await close_gently();
}

asio::awaitable<void> HttpConnection::refuse(HttpResponse response) {
  response.close = true;
  co_await write_all(response_head(response, Framing::length, false) + response.body);
  handler_.finished(nullptr, response.status, {});
  co_await close_gently();
}

asio::awaitable<HttpConnection::Read> HttpConnection::read_some(Deadline deadline) {
  std::array<char, kReadSize> bytes;
  asio::steady_timer timer(socket_.get_executor(), deadline);
  auto result = co_await (socket_.async_read_some(asio::buffer(bytes), kTuple) || timer.async_wait(kTuple));
  if (result.index() == 1) co_return Read::timeout;
  const auto [ec, size] = std::get<0>(result);
  if (ec) co_return Read::closed;
  buffer_.append(bytes.data(), size);
  co_return Read::bytes;
}

// Reads until the parser leaves `state`. False when the peer left, or was too slow (then it has its 408).
asio::awaitable<bool> HttpConnection::read_until(HttpParser& parser, HttpParser::State state, Deadline deadline) {
  while (parser.advance(buffer_) == state) {
    const Read read = co_await read_some(deadline);
    if (read == Read::bytes) continue;
    // Whoever opens a connection and says nothing, or leaves inside a request, gets no answer beyond the timeout's.
    if (read == Read::timeout) {
      co_await refuse_request(parser, error_response(408, "request_timeout", "The request did not arrive in time."),
                              state == HttpParser::State::body);
    }
    co_return false;
  }
  co_return true;
}

// A short write goes straight to the socket; only a full one costs a timer.
asio::awaitable<bool> HttpConnection::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto slice = asio::buffer(bytes.data(), std::min(bytes.size(), kWriteSlice));
    boost::system::error_code ec;
    size_t sent = socket_.write_some(slice, ec);
    if (ec == asio::error::would_block || ec == asio::error::try_again) {
      asio::steady_timer timer(socket_.get_executor(), options_.write_timeout);
      auto result = co_await (socket_.async_write_some(slice, kTuple) || timer.async_wait(kTuple));
      if (result.index() == 1) co_return false;
      std::tie(ec, sent) = std::get<0>(result);
    }
    if (ec) co_return false;
    bytes.remove_prefix(sent);
  }
  co_return true;
}

asio::awaitable<bool> HttpConnection::refuse_request(const HttpParser& parser, HttpResponse response, bool readable) {
  response.close = true;
  co_await write_all(response_head(response, Framing::length, false) + response.body);
  const HttpRequest* request = readable ? &const_cast<HttpParser&>(parser).request() : nullptr;
  handler_.finished(request, response.status, Clock::now() - began_);
  co_return false;
}

// One request and its answer. False when the connection is to end.
asio::awaitable<bool> HttpConnection::serve_one() {
  HttpParser parser(options_.parser);
  idle_ = !first_;
  if (!first_ && buffer_.empty() && co_await read_some(Clock::now() + options_.idle_timeout) != Read::bytes) {
    co_return false;
  }
  idle_ = first_ = false;
  began_ = Clock::now();
  if (!co_await read_until(parser, HttpParser::State::head, began_ + options_.head_timeout)) co_return false;
  if (parser.state() == HttpParser::State::refused) co_return co_await refuse_request(parser, parser.refusal(), false);
  if (std::optional<HttpResponse> refusal = handler_.screen(parser.request())) {
    co_return co_await refuse_request(parser, std::move(*refusal), true);
  }
  if (parser.request().expects_continue && !co_await write_all("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
  if (!co_await read_until(parser, HttpParser::State::body, Clock::now() + options_.body_timeout)) co_return false;
  if (parser.state() == HttpParser::State::refused) co_return co_await refuse_request(parser, parser.refusal(), true);

  // Any thread may wake the writer: the timer is only touched on the I/O thread.
  std::weak_ptr<HttpConnection> self = weak_from_this();
  auto wake = [self, executor = socket_.get_executor()] {
    asio::post(executor, [self] {
      if (auto connection = self.lock()) connection->wake_.cancel();
    });
  };
  co_return co_await answer(std::make_shared<Exchange>(std::move(parser.request()), options_.stream_buffer, wake));
}

asio::awaitable<bool> HttpConnection::answer(std::shared_ptr<Exchange> exchange) {
  handler_.handle(exchange);
  Outcome outcome;
  co_await (write_answer(exchange, outcome) || watch_peer());
  exchange->close();
  handler_.finished(&exchange->request(), outcome.complete ? exchange->status() : kPeerLeft, Clock::now() - began_);
  co_return outcome.reusable;
}

asio::awaitable<void> HttpConnection::write_answer(std::shared_ptr<Exchange> exchange, Outcome& outcome) {
  const HttpRequest& request = exchange->request();
  Framing framing = Framing::length;
  while (!exchange->closed()) {
    Exchange::Output out = exchange->take();
    std::string wire;
    const bool keep_alive = request.keep_alive && !out.close && !stopping_ && (request.http11 || !out.stream);
    if (out.head) {
      if (out.stream) framing = request.http11 ? Framing::chunked : Framing::until_close;
      wire = response_head(*out.head, framing, keep_alive) + out.head->body;
    }
    if (!out.bytes.empty()) wire += framing == Framing::chunked ? chunk(out.bytes) : out.bytes;
    if (out.done && framing == Framing::chunked) wire += kLastChunk;
    if (!wire.empty() && !co_await write_all(wire)) co_return;
    if (out.done) {
      outcome = {true, keep_alive && framing != Framing::until_close};
      co_return;
    }
    if (!wire.empty()) continue;
    wake_.expires_after(options_.filler_interval);
    const auto [woken] = co_await wake_.async_wait(kTuple);
    const std::string& filler = exchange->filler();
    if (woken || filler.empty()) continue;
    if (!co_await write_all(framing == Framing::chunked ? chunk(filler) : filler)) co_return;
  }
}

// Returns when the peer has closed its side. Bytes of a next request are kept; a peer that sends more than that is not
// read further, and its leaving shows when we write.
asio::awaitable<void> HttpConnection::watch_peer() {
  while (buffer_.size() < kReadAhead) {
    std::array<char, kReadSize> bytes;
    const auto [ec, size] = co_await socket_.async_read_some(asio::buffer(bytes), kTuple);
    if (ec) co_return;
    buffer_.append(bytes.data(), size);
  }
  asio::steady_timer forever(socket_.get_executor(), Clock::time_point::max());
  co_await forever.async_wait(kTuple);
}

// Closing with unread bytes would send a reset that can overtake our answer: end our side, then read the rest away.
asio::awaitable<void> HttpConnection::close_gently() {
  boost::system::error_code ec;
  socket_.shutdown(asio::socket_base::shutdown_send, ec);
  const Deadline deadline = Clock::now() + kLingerTime;
  size_t thrown_away = 0;
  while (!ec && thrown_away < kLingerBytes) {
    buffer_.clear();
    if (co_await read_some(deadline) != Read::bytes) break;
    thrown_away += buffer_.size();
  }
  socket_.close(ec);
}

}  // namespace martlet::net
