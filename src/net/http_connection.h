#pragma once

// One accepted connection: reads requests, hands them to the handler, writes the answers. For http_server.cpp only:
// everything else sees http_server.h, which knows no Asio.

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "net/deadline.h"
#include "net/http_framing.h"
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
  HttpConnection(boost::asio::io_context& io, boost::asio::ip::tcp::socket socket, const HttpServerOptions& options,
                 HttpHandler& handler, int& large_bodies);

  // Until the connection ends.
  boost::asio::awaitable<void> run();
  // One answer for a connection that is one too many; never reads the request.
  boost::asio::awaitable<void> refuse(HttpResponse response);
  // No request after the running one; an idle connection ends now.
  void stop();
  void abort();  // ends now, whatever runs
  void lose();   // nothing of it runs any more: whoever still answers hears that the peer is gone

 private:
  using Time = Deadline::Time;
  enum class Read { bytes, closed, timeout };

  void limit(Time deadline);
  boost::asio::awaitable<Read> read_some(Time deadline);
  boost::asio::awaitable<bool> read_until(HttpParser& parser, HttpParser::State state, Time deadline);
  boost::asio::awaitable<bool> write_all(std::string_view bytes);
  boost::asio::awaitable<bool> serve_one();
  std::optional<HttpResponse> screen(const HttpRequest& head);
  boost::asio::awaitable<bool> refuse_request(const HttpRequest* request, HttpResponse response);
  std::shared_ptr<Exchange> make_exchange(HttpRequest request);
  boost::asio::awaitable<bool> answer(std::shared_ptr<Exchange> exchange);
  std::string next_piece(Exchange::Output out);
  void write_now();
  boost::asio::awaitable<void> write_rest();
  boost::asio::awaitable<void> wait_for_more();
  template <class Call>
  void lose_answer_without_memory(Call call);
  void watch_peer();
  void unwatch_peer();
  void peer_stirred();
  boost::asio::awaitable<bool> starve();
  boost::asio::awaitable<void> close_gently();
  void finished(const HttpRequest* request, int status, std::chrono::nanoseconds took);
  void on_wake();

  boost::asio::io_context::executor_type executor_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer wake_;  // cancelled to wake answer()
  Deadline limit_;                  // of the read or write that waits
  bool late_ = false;               // it has passed
  const HttpServerOptions& options_;
  HttpHandler& handler_;
  int& large_bodies_;
  std::shared_ptr<Exchange> exchange_;  // the one being answered
  // How far its answer is.
  struct Answer {
    std::string unsent;  // what the socket did not take at once: answer() writes it before anything else is written
    Framing framing = Framing::length;
    bool stream = false;      // the head of one is out
    bool keep_alive = false;  // another request may follow
    bool last = false;        // nothing comes after `unsent`
    bool complete = false;    // all of it is written
    bool lost = false;        // no more of it can be written
    bool no_memory = false;   // that is why
    Time began, wrote;
    bool over() const { return complete || lost; }
  } answer_;
  std::optional<LargeBody> large_body_;
  std::string buffer_;     // bytes read and not yet used
  bool drained_ = false;   // the last read took all that there was
  bool watching_ = false;  // watch_peer() waits
  uint64_t watches_ = 0;   // that were begun
  std::chrono::steady_clock::time_point began_;
  bool idle_ = true, stopping_ = false, first_ = true;
  bool answering_ = false;  // some of the present request's answer is out
};

}  // namespace martlet::net
