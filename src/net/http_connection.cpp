#include "net/http_connection.h"

#include <algorithm>
#include <charconv>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/out_of_memory.h"
#include "net/random_hex.h"
#include "net/read_now.h"

namespace martlet::net {

// Every co_await stands alone in its statement, and what it borrows has a name: g++ 12 miscompiles some of those that
// stand in conditions or own temporaries.

namespace asio = boost::asio;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr int kPeerLeft = 499;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr size_t kWriteSlice = 16u << 10;
constexpr size_t kReadAhead = 64u << 10;  // of a next request, while the present one is answered
constexpr size_t kLargeBody = 64u << 10;
constexpr size_t kLingerBytes = 32u << 20;  // read and thrown away so that a refused peer sees its answer
constexpr std::chrono::seconds kLingerTime{2};
// To watch costs more than many an answer takes: those that are there sooner do without.
constexpr std::chrono::milliseconds kWatchAfter{5};

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

HttpConnection::HttpConnection(asio::io_context& io, tcp::socket socket, const HttpServerOptions& options,
                               HttpHandler& handler, int& large_bodies)
    : executor_(io.get_executor()),
      socket_(std::move(socket)),
      wake_(executor_),
      limit_(executor_,
             [this] {
               late_ = true;
               boost::system::error_code ignored;
               socket_.cancel(ignored);
             }),
      options_(options),
      handler_(handler),
      large_bodies_(large_bodies) {
  boost::system::error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
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
      // Who sends requests without waiting for answers would otherwise be the only one served.
      if (more && !(buffer_.empty() && drained_)) co_await asio::post(executor_, asio::use_awaitable);
    } catch (const std::bad_alloc&) {
      no_memory = true;
    }
    if (no_memory) more = co_await starve();
  }
  co_await close_gently();
}

// There was no memory to read a request, or to answer it: that request gets 503, unless some of an answer is out.
asio::awaitable<bool> HttpConnection::starve() {
  unwatch_peer();
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
void HttpConnection::limit(Time deadline) {
  late_ = false;
  limit_.set(deadline, weak_from_this());
}

asio::awaitable<HttpConnection::Read> HttpConnection::read_some(Time deadline) {
  Received received;
  if (!drained_) received = read_now(socket_);
  if (drained_ || would_block(received.error)) limit(deadline);
  while (drained_ || would_block(received.error)) {
    drained_ = false;
    const auto [ec] = co_await socket_.async_wait(tcp::socket::wait_read, kTuple);
    if (late_) co_return Read::timeout;
    received = ec ? Received{ec, {}} : read_now(socket_);
  }
  limit_.clear();
  drained_ = received.drained();
  if (received.error) co_return Read::closed;
  buffer_.append(received.bytes);
  co_return Read::bytes;
}

// Reads until the parser leaves `state`. False when the peer left, or was too slow (then it has its 408).
asio::awaitable<bool> HttpConnection::read_until(HttpParser& parser, HttpParser::State state, Time deadline) {
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

asio::awaitable<bool> HttpConnection::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto slice = asio::buffer(bytes.data(), std::min(bytes.size(), kWriteSlice));
    boost::system::error_code ec;
    size_t sent = socket_.write_some(slice, ec);
    if (would_block(ec)) {
      limit(Clock::now() + options_.write_timeout);
      if (exchange_) exchange_->stalled(true);
      const auto [waited, size] = co_await socket_.async_write_some(slice, kTuple);
      ec = waited, sent = size;
      if (exchange_) exchange_->stalled(false);
      limit_.clear();
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

// One request and its answer. False when the connection is to end.
asio::awaitable<bool> HttpConnection::serve_one() {
  // The head of a connection's first request has its own time limit.
  idle_ = !std::exchange(first_, false) && buffer_.empty();
  Read read = Read::bytes;
  if (idle_) read = co_await read_some(Clock::now() + options_.idle_timeout);
  idle_ = false;
  if (read != Read::bytes) co_return false;
  HttpParser parser(options_.parser);
  answering_ = false;
  began_ = Clock::now();
  bool going = true;
  // Mostly all of it is there: that costs no coroutine.
  if (parser.advance(buffer_) == HttpParser::State::head) {
    going = co_await read_until(parser, HttpParser::State::head, began_ + options_.head_timeout);
  }
  if (!going) co_return false;
  if (parser.state() == HttpParser::State::refused) co_return co_await refuse_request(nullptr, parser.refusal());
  parser.request().id = random_hex(8);
  std::optional<HttpResponse> refusal = screen(parser.request());
  if (refusal) co_return co_await refuse_request(&parser.request(), std::move(*refusal));
  if (parser.request().expects_continue) going = co_await write_all(kContinue);
  if (going && parser.advance(buffer_) == HttpParser::State::body) {
    going = co_await read_until(parser, HttpParser::State::body, Clock::now() + options_.body_timeout);
  }
  if (!going) co_return false;
  if (parser.state() == HttpParser::State::refused) {
    co_return co_await refuse_request(&parser.request(), parser.refusal());
  }
  co_return co_await answer(make_exchange(std::move(parser.request())));
}

// Any thread may wake the writer: the timer is only touched on the I/O thread. Who is there already wakes it at once.
std::shared_ptr<Exchange> HttpConnection::make_exchange(HttpRequest request) {
  auto wake = [self = weak_from_this(), executor = executor_] {
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
  answer_ = {};
  answer_.began = answer_.wrote = began_;
  handler_.handle(exchange);
  for (write_now(); !answer_.over(); write_now()) {
    if (answer_.unsent.empty()) {
      co_await wait_for_more();
    } else {
      co_await write_rest();
    }
  }
  unwatch_peer();
  if (answer_.no_memory) throw std::bad_alloc();
  exchange_.reset();
  exchange->close();
  // A peer that left, or does not read what it has, will not miss a gentle end.
  if (!answer_.complete) abort();
  finished(&exchange->request(), answer_.complete ? exchange->status() : kPeerLeft, Clock::now() - began_);
  const bool reusable = answer_.complete && answer_.keep_alive;
  co_return reusable;
}

// The end of an answer is written at once: the client need not wait for answer() to have its turn.
void HttpConnection::on_wake() {
  if (exchange_ && exchange_->overflowed()) return abort();  // answer() sits in a write that the peer does not take
  if (exchange_ && exchange_->ended()) lose_answer_without_memory([this] { write_now(); });
  wake_.cancel();
}

// For what others than answer() call.
template <class Call>
void HttpConnection::lose_answer_without_memory(Call call) {
  try {
    call();
  } catch (const std::bad_alloc&) {
    answer_.lost = answer_.no_memory = true;
  }
}

// What became ready of the answer, as it goes out.
std::string HttpConnection::next_piece(Exchange::Output out) {
  const HttpRequest& request = exchange_->request();
  answer_.keep_alive = request.keep_alive && !out.close && !stopping_ && (request.http11 || !out.stream);
  std::string piece;
  if (out.head) {
    large_body_.reset();
    answer_.stream = out.stream;
    out.head->fields.push_back({"x-request-id", request.id});
    if (out.stream) answer_.framing = request.http11 ? Framing::chunked : Framing::until_close;
    piece = out.stream ? response_head(*out.head, answer_.framing, answer_.keep_alive)
                       : whole_answer(&request, *out.head, answer_.keep_alive);
  }
  const bool chunked = answer_.framing == Framing::chunked;
  if (!out.bytes.empty()) piece += chunked ? chunk(out.bytes) : out.bytes;
  if (out.done && chunked) piece += kLastChunk;
  answer_.last = out.done;
  return piece;
}

// Writes what there is of the answer, as far as the socket takes it now.
void HttpConnection::write_now() {
  while (!answer_.over() && answer_.unsent.empty()) {
    if (answer_.last) {
      answer_.complete = true;
      answer_.keep_alive &= answer_.framing != Framing::until_close;
    } else if (exchange_->closed()) {
      answer_.lost = true;
    } else {
      std::string piece = next_piece(exchange_->take());
      if (piece.empty() && !answer_.last && !exchange_->closed()) return;
      if (piece.empty()) continue;
      answering_ = true;
      boost::system::error_code ec;
      const size_t sent = socket_.write_some(asio::buffer(piece), ec);
      answer_.lost = ec && !would_block(ec);
      answer_.wrote = Clock::now();
      if (sent < piece.size()) answer_.unsent = std::move(piece.erase(0, sent));
    }
  }
}

asio::awaitable<void> HttpConnection::write_rest() {
  const bool written = co_await write_all(answer_.unsent);
  answer_.unsent = std::string();  // not clear(): what an answer took would stay with an idle connection
  answer_.wrote = Clock::now();
  if (!written) answer_.lost = true;
}

// Until there is more of the answer, or something else is due.
asio::awaitable<void> HttpConnection::wait_for_more() {
  const Time quiet_until = answer_.wrote + options_.filler_interval, watch_at = answer_.began + kWatchAfter;
  wake_.expires_at(watching_ ? quiet_until : std::min(quiet_until, watch_at));
  co_await wake_.async_wait(kTuple);
  const Time now = Clock::now();
  if (!watching_ && now >= watch_at && !answer_.over()) watch_peer();
  if (now < quiet_until || !answer_.unsent.empty() || answer_.over()) co_return;
  answer_.wrote = now;
  if (!answer_.stream) co_return;
  const std::string& filler = exchange_->filler();
  if (!filler.empty()) answer_.unsent = answer_.framing == Framing::chunked ? chunk(filler) : filler;
}

// Notices when the peer closes its side. Bytes of a next request are kept; a peer that sends more than that is not read
// further: then only a reset shows, or its leaving when we write.
void HttpConnection::watch_peer() {
  const auto what = buffer_.size() < kReadAhead ? tcp::socket::wait_read : tcp::socket::wait_error;
  socket_.async_wait(what, [weak = weak_from_this(), turn = ++watches_](boost::system::error_code) {
    const auto self = weak.lock();
    if (!self || !self->watching_ || self->watches_ != turn || self->answer_.over()) return;
    self->lose_answer_without_memory([&] { self->peer_stirred(); });
    if (!self->answer_.lost) return;
    // Without memory the socket stays: it may still take a 503.
    const bool may_be_told = self->answer_.no_memory && !self->answering_;
    may_be_told ? static_cast<void>(self->wake_.cancel()) : self->abort();
  });
  watching_ = true;
}

void HttpConnection::unwatch_peer() {
  if (!std::exchange(watching_, false)) return;
  boost::system::error_code ignored;
  socket_.cancel(ignored);
}

void HttpConnection::peer_stirred() {
  const Received received = buffer_.size() < kReadAhead ? read_now(socket_) : Received{asio::error::eof, {}};
  drained_ = received.drained();
  if (received.error && !would_block(received.error)) {
    answer_.lost = true;
  } else {
    buffer_.append(received.bytes);
    watch_peer();
  }
}

// Closing with unread bytes would send a reset that can overtake our answer: end our side, then read the rest away.
asio::awaitable<void> HttpConnection::close_gently() {
  boost::system::error_code ec;
  socket_.shutdown(asio::socket_base::shutdown_send, ec);
  const Time deadline = Clock::now() + kLingerTime;
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
