#include "net/http_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "server/client.h"

namespace martlet::net {
namespace {

using namespace std::chrono_literals;
using server::Client;

const std::string kGet = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
const std::string kLastGet = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

struct Handler : HttpHandler {
  std::optional<HttpResponse> screen(const HttpRequest&) override { return std::nullopt; }
  void handle(std::shared_ptr<Exchange> exchange) override { answer(std::move(exchange)); }
  void finished(const HttpRequest*, int status, std::chrono::nanoseconds) override { last_status = status; }
  std::function<void(std::shared_ptr<Exchange>)> answer;
  std::atomic<int> last_status{0};
};

HttpResponse text(std::string body) {
  HttpResponse out;
  out.body = std::move(body);
  return out;
}

// Answers later, from a thread of its own, as `answer` says.
class Later {
 public:
  ~Later() {
    for (std::thread& thread : threads_) thread.join();
  }
  template <class Answer>
  void operator()(std::chrono::milliseconds time, Answer answer) {
    threads_.emplace_back([=] {
      std::this_thread::sleep_for(time);
      answer();
    });
  }

 private:
  std::vector<std::thread> threads_;
};

struct Served {
  explicit Served(std::function<void(std::shared_ptr<Exchange>)> answer, HttpServerOptions options = {}) {
    handler.answer = std::move(answer);
    options.port = 0;
    http = std::move(*HttpServer::open(options, handler));
    http->run();
  }
  Handler handler;
  std::unique_ptr<HttpServer> http;
};

size_t count(const std::string& text, const std::string& what) {
  size_t out = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++out;
  return out;
}

template <class Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 6000 && !condition(); ++i) std::this_thread::sleep_for(5ms);
  return condition();
}

TEST(HttpServer, AnswersRequestsThatCameTogetherInTheirOrder) {
  for (const auto time : {0ms, 30ms}) {  // at once, or when the next one has been read
    std::atomic<int> asked{0};
    Later later;
    Served served([&](std::shared_ptr<Exchange> exchange) {
      const auto reply = [exchange, n = ++asked] { exchange->reply(text("answer " + std::to_string(n))); };
      if (time == 0ms) return reply();
      later(time, reply);
    });
    Client client(served.http->port());
    client.send(kGet + kGet + kLastGet);
    const std::string all = client.receive();
    EXPECT_EQ(count(all, "200 OK"), 3u) << all;
    EXPECT_LT(all.find("answer 1"), all.find("answer 2"));
    EXPECT_LT(all.find("answer 2"), all.find("answer 3"));
    EXPECT_NE(all.find("answer 3"), all.npos);
  }
}

// Requests that come faster than they are answered, all of whose answers are there at once.
TEST(HttpServer, WhoNeverStopsAskingDoesNotKeepOthersWaiting) {
  Served served([](std::shared_ptr<Exchange> exchange) { exchange->reply(text("answer")); });
  Client greedy(served.http->port());
  std::string many;
  while (many.size() < (256u << 10)) many += kGet;
  std::atomic<bool> over{false};
  std::thread asks([&] {
    while (!over) greedy.send(many);
  });
  std::thread reads([&] { greedy.receive(); });
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    Client other(served.http->port());
    other.send(kLastGet);
    EXPECT_EQ(count(other.receive(), "200 OK"), 1u);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 500ms);  // 30 ms; a second and more where the other never waits
  served.http.reset();                                         // and it can be stopped
  over = true;
  asks.join(), reads.join();
}

TEST(HttpServer, OneConnectionServesManyRequests) {
  Later later;
  int asked = 0;
  Served served([&](std::shared_ptr<Exchange> exchange) {
    const auto reply = [exchange] { exchange->reply(text("answer")); };
    if (++asked % 2) return reply();
    later(15ms, reply);
  });
  Client client(served.http->port());
  for (int i = 0; i < 6; ++i) {
    client.send(kGet);
    EXPECT_NE(client.receive("answer").find("200 OK"), std::string::npos);
  }
}

TEST(HttpServer, ALargeAnswerReachesASlowReaderWhole) {
  const std::string body(8 << 20, 'x');
  Served served([&](std::shared_ptr<Exchange> exchange) { exchange->reply(text(body)); });
  Client client(served.http->port());
  client.send(kLastGet);
  std::this_thread::sleep_for(100ms);
  const std::string all = client.receive();
  EXPECT_EQ(all.substr(all.find("\r\n\r\n") + 4), body);
  EXPECT_TRUE(eventually([&] { return served.handler.last_status == 200; }));
}

TEST(HttpServer, AReaderThatStopsLosesItsAnswer) {
  HttpServerOptions options;
  options.write_timeout = 100ms;
  Served served([&](std::shared_ptr<Exchange> exchange) { exchange->reply(text(std::string(16 << 20, 'x'))); },
                options);
  Client client(served.http->port());
  client.send(kGet);
  EXPECT_TRUE(eventually([&] { return served.handler.last_status == 499; }));
}

TEST(HttpServer, WhoAnswersLateHearsThatThePeerHasLeft) {
  std::atomic<bool> told{false};
  std::shared_ptr<Exchange> kept;
  Served served([&](std::shared_ptr<Exchange> exchange) {
    exchange->on_close([&] { told = true; });
    kept = std::move(exchange);
  });
  for (const auto time : {0ms, 50ms}) {
    told = false;
    Client client(served.http->port());
    client.send(kGet + kGet.substr(0, 10));
    std::this_thread::sleep_for(time);
    client.close();
    EXPECT_TRUE(eventually([&] { return told.load(); }));
    EXPECT_TRUE(eventually([&] { return served.handler.last_status == 499; }));
    served.handler.last_status = 0;
  }
}

TEST(HttpServer, AStreamIsKeptAliveAndEnds) {
  HttpServerOptions options;
  options.filler_interval = 20ms;
  Later later;
  Served served(
      [&](std::shared_ptr<Exchange> exchange) {
        exchange->begin_stream(text(""), ": filler\n\n");
        exchange->write("first");
        later(120ms, [exchange] {
          exchange->write("second");
          exchange->end();
        });
      },
      options);
  Client client(served.http->port());
  client.send(kLastGet);
  const std::string all = client.receive();
  EXPECT_LT(all.find("first"), all.find(": filler"));
  EXPECT_LT(all.find(": filler"), all.find("second"));
  EXPECT_TRUE(all.ends_with("0\r\n\r\n")) << all;
}

}  // namespace
}  // namespace martlet::net
