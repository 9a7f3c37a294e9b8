#pragma once

// One accepted connection: reads requests, hands them to the handler, writes the answers. For http_server.cpp only:
// everything else sees http_server.h, which knows no Asio.

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "net/http_server.h"

namespace martlet::net {

// A body large enough to count, from its announcement until its answer begins. I/O thread only.
class LargeBody {
 public:
  explicit LargeBody(int& count) : count_(&count) { ++count; }
  LargeBody(LargeBody&& other) noexcept : count_(std::exchange(other.count_, nullptr)) {}
  LargeBody& operator=(LargeBody&&) = delete;
  ~LargeBody() {
    if (count_) --*count_;
  }

 private:
  int* count_;
};

// Lives on the I/O thread, owned by the coroutine that run() is.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  // `large_bodies`: of all connections together.
  HttpConnection(boost::asio::ip::tcp::socket socket, const HttpServerOptions& options, HttpHandler& handler,
                 int& large_bodies);

  // Until the connection ends.
  boost::asio::awaitable<void> run();
  // One answer for a connection that is one too many; never reads the request.
  boost::asio::awaitable<void> refuse(HttpResponse response);
  // No request after the running one; an idle connection ends now.
  void stop();
  void abort();  // ends now, whatever runs
  void lose();   // nothing of it runs any more: whoever still answers hears that the peer is gone

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  enum class Read { bytes, closed, timeout };

  void limit(Deadline deadline);
  void unlimit();
  boost::asio::awaitable<Read> read_some(Deadline deadline);
  boost::asio::awaitable<bool> read_until(HttpParser& parser, HttpParser::State state, Deadline deadline);
  boost::asio::awaitable<bool> write_all(std::string_view bytes);
  boost::asio::awaitable<bool> serve_one();
  std::optional<HttpResponse> screen(const HttpRequest& head);
  boost::asio::awaitable<bool> wait_for_request();
  boost::asio::awaitable<bool> refuse_request(const HttpRequest* request, HttpResponse response);
  std::shared_ptr<Exchange> make_exchange(HttpRequest request);
  boost::asio::awaitable<bool> answer(std::shared_ptr<Exchange> exchange);
  struct Outcome {
    bool complete = false;  // the whole answer is written
    bool reusable = false;  // another request may follow
    bool no_memory = false;
  };
  boost::asio::awaitable<void> write_answer(std::shared_ptr<Exchange> exchange, Outcome& outcome);
  boost::asio::awaitable<void> write_pieces(std::shared_ptr<Exchange> exchange, Outcome& outcome);
  boost::asio::awaitable<bool> starve();
  boost::asio::awaitable<void> watch_peer();
  boost::asio::awaitable<void> close_gently();
  void finished(const HttpRequest* request, int status, std::chrono::nanoseconds took);
  void on_wake();

  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer wake_;   // never expires by itself while nothing is due: cancelled to wake the writer
  boost::asio::steady_timer limit_;  // of the read that waits
  uint64_t limits_ = 0;              // that were set or taken away
  bool late_ = false;                // the last one came to its end
  const HttpServerOptions& options_;
  HttpHandler& handler_;
  int& large_bodies_;
  std::shared_ptr<Exchange> exchange_;  // the one being answered
  std::optional<LargeBody> large_body_;
  std::string buffer_;  // bytes read and not yet used
  std::chrono::steady_clock::time_point began_;
  bool idle_ = true, stopping_ = false, first_ = true;
  bool answering_ = false;  // some of the present request's answer is out
};

}  // namespace martlet::net
