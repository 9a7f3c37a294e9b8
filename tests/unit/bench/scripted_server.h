#pragma once

// A server that streams chat completions at scripted times and notes when it did, so that a client's figures can be
// held to the truth. Runs on a thread of its own.

#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio.hpp>

namespace martlet::bench {

struct Script {
  std::chrono::milliseconds first{50}, between{20};
  int tokens = 10;
  bool usage = true;    // tells how many tokens there were
  int empty_first = 0;  // events without text before the first token, at once
  std::string status = "200 OK";
  int cut_after = -1;                   // closes the connection after so many tokens
  std::chrono::milliseconds slower{0};  // that is added to `between` with each request
};

// Seconds: when the request's last byte came, of a steady clock, and from there to its tokens.
struct Truth {
  double begin = 0, first = 0, last = 0;
};

class ScriptedServer {
 public:
  explicit ScriptedServer(Script script)
      : script_(std::move(script)), acceptor_(io_, {boost::asio::ip::make_address("127.0.0.1"), 0}) {
    boost::asio::co_spawn(io_, accept(), boost::asio::detached);
    thread_ = std::thread([this] { io_.run(); });
  }
  ~ScriptedServer() {
    io_.stop();
    thread_.join();
  }
  uint16_t port() const { return acceptor_.local_endpoint().port(); }
  std::vector<Truth> truths() {
    const std::lock_guard lock(mutex_);
    return truths_;
  }

 private:
  using Socket = boost::asio::ip::tcp::socket;
  using Clock = std::chrono::steady_clock;

  boost::asio::awaitable<void> accept() {
    while (true) {
      Socket socket = co_await acceptor_.async_accept(boost::asio::use_awaitable);
      socket.set_option(boost::asio::ip::tcp::no_delay(true));
      boost::asio::co_spawn(io_, serve(std::move(socket)), boost::asio::detached);
    }
  }

  static std::string chunk(const std::string& data) {
    char size[16];
    std::snprintf(size, sizeof size, "%zx\r\n", data.size());
    return size + data + "\r\n";
  }
  static std::string token(const std::string& text) {
    return chunk(R"(data: {"choices":[{"index":0,"delta":{"content":")" + text +
                 R"("},"finish_reason":null}]})"
                 "\n\n");
  }

  // Named strings only: g++ 12 destroys temporaries of a co_await twice.
  static boost::asio::awaitable<void> send(Socket& socket, const std::string& bytes, boost::system::error_code& ec) {
    co_await boost::asio::async_write(socket, boost::asio::buffer(bytes),
                                      boost::asio::redirect_error(boost::asio::use_awaitable, ec));
  }

  boost::asio::awaitable<void> serve(Socket socket) {
    boost::system::error_code ec;
    std::string request;
    co_await boost::asio::async_read_until(socket, boost::asio::dynamic_buffer(request), "}}",
                                           boost::asio::redirect_error(boost::asio::use_awaitable, ec));
    const Clock::time_point begin = Clock::now();
    const auto between = script_.between + served_++ * script_.slower;
    const auto since = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
    std::string head =
        "HTTP/1.1 " + script_.status + "\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (int i = 0; i < script_.empty_first; ++i) head += token("");
    co_await send(socket, head, ec);
    const std::string word = token("w ");
    Truth truth{.begin = std::chrono::duration<double>(begin.time_since_epoch()).count()};
    boost::asio::steady_timer timer(io_);
    for (int i = 0; i < script_.tokens && i != script_.cut_after; ++i) {
      timer.expires_at(begin + script_.first + i * between);
      co_await timer.async_wait(boost::asio::use_awaitable);
      truth.last = since();
      if (i == 0) truth.first = truth.last;
      co_await send(socket, word, ec);
    }
    const std::lock_guard lock(mutex_);
    truths_.push_back(truth);
    if (script_.cut_after >= 0) co_return;
    std::string end = chunk(R"(data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]})"
                            "\n\n");
    if (script_.usage) {
      end += chunk(R"(data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":)" +
                   std::to_string(script_.tokens) + R"(,"prompt_tokens_details":{"cached_tokens":3}}})" + "\n\n");
    }
    boost::asio::write(socket, boost::asio::buffer(end + chunk("data: [DONE]\n\n") + "0\r\n\r\n"), ec);
  }

  const Script script_;
  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  int served_ = 0;
  std::thread thread_;
  std::mutex mutex_;
  std::vector<Truth> truths_;
};

}  // namespace martlet::bench
