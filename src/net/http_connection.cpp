#include "net/http_connection.h"

#include <array>
#include <charconv>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/out_of_memory.h"
#include "net/http_framing.h"
#include "net/random_hex.h"

namespace martlet::net {

// Every co_await stands alone in its statement, and what it borrows has a name: g++ 12 miscompiles some of those that
// stand in conditions or own temporaries.

namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr int kPeerLeft = 499;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr size_t kReadSize = 16u << 10;
constexpr size_t kWriteSlice = 16u << 10;
constexpr size_t kReadAhead = 64u << 10;  // of a next request, while the present one is answered
constexpr size_t kLargeBody = 64u << 10;
constexpr size_t kLingerBytes = 32u << 20;  // read and thrown away so that a refused peer sees its answer
constexpr std::chrono::seconds kLingerTime{2};

// By what the head announces; chunks announce nothing.
bool has_large_body(const HttpRequest& head) {
  const std::string_view length = head.field("content-length");
  size_t bytes = 0;
  std::from_chars(length.data(), length.data() + length.size(), bytes);
  return head.has_body && (length.empty() || bytes > kLargeBody);
}

// An answer in one piece. HEAD asks for everything but the body.
std::string whole_answer(const HttpRequest* request, const HttpResponse& response, bool keep_alive) {
  std::string out = response_head(response, Framing::length, keep_alive);
  if (!request || request->method != "HEAD") out += response.body;
  return out;
}

HttpResponse too_many_bodies() {
  HttpResponse out = error_response(503, "too_many_bodies", "Too many large bodies are being read; try again later.");
  out.fields.push_back({"retry-after", "1"});
  return out;
}

}  // namespace

HttpConnection::HttpConnection(asio::ip::tcp::socket socket, const HttpServerOptions& options, HttpHandler& handler,
                               int& large_bodies)
    : socket_(std::move(socket)),
      wake_(socket_.get_executor()),
      limit_(socket_.get_executor()),
      options_(options),
      handler_(handler),
      large_bodies_(large_bodies) {
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

void HttpConnection::lose() {
  abort();
  if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->close();
}

asio::awaitable<void> HttpConnection::run() {
  bool more = true;
  while (more && !stopping_) {
    bool no_memory = false;
    try {
      more = co_await serve_one();
    } catch (const std::bad_alloc&) {
      no_memory = true;
    }
    if (no_memory) more = co_await starve();
  }
  co_await close_gently();
}

// There was no memory to read a request, or to answer it: that request gets 503, unless some of an answer is out.
asio::awaitable<bool> HttpConnection::starve() {
  if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->close();
  large_body_.reset();
  if (answering_) {
    abort();
    co_return false;
  }
  const Error error = out_of_memory();
  HttpResponse response = error_response(503, error.code, error.text);
  response.fields.push_back({"retry-after", "1"});
  co_return co_await refuse_request(nullptr, std::move(response));
}

// The answer is out: that there is no memory to count it or to log it changes nothing about it.
void HttpConnection::finished(const HttpRequest* request, int status, std::chrono::nanoseconds took) {
  if_memory_allows([&] { handler_.finished(request, status, took); });
}

asio::awaitable<void> HttpConnection::refuse(HttpResponse response) {
  const std::string wire = whole_answer(nullptr, response, false);
  co_await write_all(wire);
  finished(nullptr, response.status, {});
  co_await close_gently();
}

// Cancels what waits on the socket at `deadline`, and says so in late_. Waiting for socket and timer together would
// leave one of them waiting alone where there is no memory for the other.
void HttpConnection::limit(Deadline deadline) {
  late_ = false;
  limit_.expires_at(deadline);
  limit_.async_wait([weak = weak_from_this(), turn = ++limits_](boost::system::error_code ec) {
    const auto self = weak.lock();
    if (ec || !self || self->limits_ != turn) return;
    self->late_ = true;
    self->socket_.cancel(ec);
  });
}

void HttpConnection::unlimit() {
  ++limits_;
  limit_.cancel();
}

asio::awaitable<HttpConnection::Read> HttpConnection::read_some(Deadline deadline) {
  std::array<char, kReadSize> bytes;
  limit(deadline);
  const auto [ec, size] = co_await socket_.async_read_some(asio::buffer(bytes), kTuple);
  unlimit();
  if (late_) co_return Read::timeout;
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
    if (read == Read::closed) co_return false;
    const HttpRequest* request = state == HttpParser::State::body ? &parser.request() : nullptr;
    HttpResponse late = error_response(408, "request_timeout", "The request did not arrive in time.");
    co_return co_await refuse_request(request, std::move(late));
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
      if (exchange_) exchange_->stalled(true);
      auto result = co_await (socket_.async_write_some(slice, kTuple) || timer.async_wait(kTuple));
      if (exchange_) exchange_->stalled(false);
      if (result.index() == 1) co_return false;
      std::tie(ec, sent) = std::get<0>(result);
    }
    if (ec) co_return false;
    bytes.remove_prefix(sent);
  }
  co_return true;
}

asio::awaitable<bool> HttpConnection::refuse_request(const HttpRequest* request, HttpResponse response) {
  // Who has no key gets the same bytes whatever was asked.
  if (request && response.status != 401) response.fields.push_back({"x-request-id", request->id});
  const std::string wire = whole_answer(request, response, false);
  answering_ = true;
  co_await write_all(wire);
  finished(request, response.status, Clock::now() - began_);
  co_return false;
}

std::optional<HttpResponse> HttpConnection::screen(const HttpRequest& head) {
  if (auto refusal = handler_.screen(head)) return refusal;
  if (!has_large_body(head)) return std::nullopt;
  if (large_bodies_ >= options_.max_large_bodies) return too_many_bodies();
  large_body_.emplace(large_bodies_);
  return std::nullopt;
}

// Waits for the first byte of a connection's next request; the first one's head has its own time limit.
asio::awaitable<bool> HttpConnection::wait_for_request() {
  const bool wait = !first_ && buffer_.empty();
  first_ = false;
  idle_ = wait;
  Read read = Read::bytes;
  if (wait) read = co_await read_some(Clock::now() + options_.idle_timeout);
  idle_ = false;
  co_return read == Read::bytes;
}

// One request and its answer. False when the connection is to end.
asio::awaitable<bool> HttpConnection::serve_one() {
  bool going = co_await wait_for_request();
  if (!going) co_return false;
  HttpParser parser(options_.parser);
  answering_ = false;
  began_ = Clock::now();
  going = co_await read_until(parser, HttpParser::State::head, began_ + options_.head_timeout);
  if (!going) co_return false;
  if (parser.state() == HttpParser::State::refused) co_return co_await refuse_request(nullptr, parser.refusal());
  parser.request().id = random_hex(8);
  std::optional<HttpResponse> refusal = screen(parser.request());
  if (refusal) co_return co_await refuse_request(&parser.request(), std::move(*refusal));
  if (parser.request().expects_continue) going = co_await write_all(kContinue);
  if (going) going = co_await read_until(parser, HttpParser::State::body, Clock::now() + options_.body_timeout);
  if (!going) co_return false;
  if (parser.state() == HttpParser::State::refused) {
    co_return co_await refuse_request(&parser.request(), parser.refusal());
  }
  co_return co_await answer(make_exchange(std::move(parser.request())));
}

// Any thread may wake the writer: the timer is only touched on the I/O thread. Who is there already wakes it at once.
std::shared_ptr<Exchange> HttpConnection::make_exchange(HttpRequest request) {
  auto wake = [self = weak_from_this(), executor = socket_.get_executor()] {
    insist([&] {
      asio::dispatch(executor, [self] {
        if (auto connection = self.lock()) connection->on_wake();
      });
    });
  };
  return std::make_shared<Exchange>(std::move(request), options_.stream_buffer, std::move(wake));
}

asio::awaitable<bool> HttpConnection::answer(std::shared_ptr<Exchange> exchange) {
  exchange_ = exchange;
  handler_.handle(exchange);
  Outcome outcome;
  co_await (write_answer(exchange, outcome) || watch_peer());
  if (outcome.no_memory) throw std::bad_alloc();
  exchange_.reset();
  exchange->close();
  // A peer that left, or does not read what it has, will not miss a gentle end.
  if (!outcome.complete) abort();
  finished(&exchange->request(), outcome.complete ? exchange->status() : kPeerLeft, Clock::now() - began_);
  co_return outcome.reusable;
}

void HttpConnection::on_wake() {
  wake_.cancel();
  if (exchange_ && exchange_->overflowed()) abort();  // the writer sits in a write that the peer does not take
}

// Ends without an exception: whoever waits for this or for the peer's leaving would go on to wait for the peer.
asio::awaitable<void> HttpConnection::write_answer(std::shared_ptr<Exchange> exchange, Outcome& outcome) {
  // Unless Asio destroys this for want of memory: then the peer is not to wait any more either.
  struct End {
    HttpConnection& connection;
    bool reached = false;
    ~End() {
      if (!reached) connection.abort();
    }
  } end{*this};
  try {
    co_await write_pieces(exchange, outcome);
  } catch (const std::bad_alloc&) {
    outcome.no_memory = true;
  }
  end.reached = true;
}

asio::awaitable<void> HttpConnection::write_pieces(std::shared_ptr<Exchange> exchange, Outcome& outcome) {
  const HttpRequest& request = exchange->request();
  Framing framing = Framing::length;
  while (!exchange->closed()) {
    Exchange::Output out = exchange->take();
    std::string wire;
    const bool keep_alive = request.keep_alive && !out.close && !stopping_ && (request.http11 || !out.stream);
    if (out.head) {
      large_body_.reset();
      out.head->fields.push_back({"x-request-id", request.id});
      if (out.stream) framing = request.http11 ? Framing::chunked : Framing::until_close;
      wire = out.stream ? response_head(*out.head, framing, keep_alive) : whole_answer(&request, *out.head, keep_alive);
    }
    if (!out.bytes.empty()) wire += framing == Framing::chunked ? chunk(out.bytes) : out.bytes;
    if (out.done && framing == Framing::chunked) wire += kLastChunk;
    bool written = true;
    answering_ |= !wire.empty();
    if (!wire.empty()) written = co_await write_all(wire);
    if (!written) co_return;
    if (out.done) {
      outcome = {true, keep_alive && framing != Framing::until_close};
      co_return;
    }
    if (!wire.empty()) continue;
    wake_.expires_after(options_.filler_interval);
    const auto [woken] = co_await wake_.async_wait(kTuple);
    if (woken || exchange->filler().empty()) continue;
    const std::string filler = framing == Framing::chunked ? chunk(exchange->filler()) : exchange->filler();
    written = co_await write_all(filler);
    if (!written) co_return;
  }
}

// Returns when the peer has closed its side. Bytes of a next request are kept; a peer that sends more than that is not
// read further: then only a reset shows, or its leaving when we write.
asio::awaitable<void> HttpConnection::watch_peer() {
  while (buffer_.size() < kReadAhead) {
    std::array<char, kReadSize> bytes;
    const auto [ec, size] = co_await socket_.async_read_some(asio::buffer(bytes), kTuple);
    if (ec) co_return;
    buffer_.append(bytes.data(), size);
  }
  co_await socket_.async_wait(asio::socket_base::wait_error, kTuple);
}

// Closing with unread bytes would send a reset that can overtake our answer: end our side, then read the rest away.
asio::awaitable<void> HttpConnection::close_gently() {
  boost::system::error_code ec;
  socket_.shutdown(asio::socket_base::shutdown_send, ec);
  const Deadline deadline = Clock::now() + kLingerTime;
  size_t thrown_away = 0;
  while (!ec && thrown_away < kLingerBytes) {
    buffer_.clear();
    const Read read = co_await read_some(deadline);
    if (read != Read::bytes) break;
    thrown_away += buffer_.size();
  }
  socket_.close(ec);
}

}  // namespace martlet::net
