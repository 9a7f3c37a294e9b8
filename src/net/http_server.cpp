#include "net/http_server.h"

#include <atomic>
#include <set>
#include <thread>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/out_of_memory.h"
#include "net/http_connection.h"

namespace martlet::net {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr int kMaxRefusing = 64;  // connections that are being told 503; further ones wait in the backlog
constexpr std::chrono::milliseconds kRetryAccept{100};

std::string numeric(const std::string& host) {
  return host == "localhost" ? "127.0.0.1" : host;
}

HttpResponse too_many_connections() {
  HttpResponse out = error_response(503, "too_many_connections", "Too many connections are open; try again later.");
  out.fields.push_back({"retry-after", "1"});
  return out;
}

}  // namespace

struct HttpServer::State {
  State(const HttpServerOptions& options, HttpHandler& handler)
      : options(options), handler(handler), acceptor(io), workers(options.workers) {}

  class Accepting;
  class Seat;

  Status listen();
  void start_accepting();
  asio::awaitable<void> accept();
  asio::awaitable<void> wait_a_moment();
  bool admit(tcp::socket socket);
  template <class Run>
  static asio::awaitable<void> serve(std::unique_ptr<Seat> seat, Run run);

  const HttpServerOptions options;
  HttpHandler& handler;
  // On the I/O thread; before `io`, whose coroutines give their places back.
  int serving = 0, refusing = 0, large_bodies = 0;
  std::set<std::shared_ptr<HttpConnection>> open;
  std::atomic<int> connections{0};
  asio::io_context io{1};
  tcp::acceptor acceptor;
  asio::thread_pool workers;
  std::thread thread;
};

// Where memory runs out inside Asio, a coroutine is destroyed without a word to anybody: what must happen when one ends
// is the work of an object that it owns.

class HttpServer::State::Accepting {
 public:
  explicit Accepting(State& state) : state_(state) {}
  Accepting(const Accepting&) = delete;
  ~Accepting() {
    if (state_.io.stopped() || !state_.acceptor.is_open()) return;
    insist([this] { asio::post(state_.io, [s = &state_] { s->start_accepting(); }); });
  }

 private:
  State& state_;
};

// A connection's place among those that are open.
class HttpServer::State::Seat {
 public:
  Seat(State& state, std::shared_ptr<HttpConnection> connection, int State::*counter)
      : state_(state), place_(state.open.insert(std::move(connection)).first), counter_(counter) {
    ++(state_.*counter_);
    state_.connections = state_.serving;
  }
  Seat(const Seat&) = delete;
  ~Seat() {
    if (!state_.io.stopped()) if_memory_allows([this] { connection().lose(); });
    state_.open.erase(place_);
    --(state_.*counter_);
    state_.connections = state_.serving;
  }
  HttpConnection& connection() const { return **place_; }

 private:
  State& state_;
  const std::set<std::shared_ptr<HttpConnection>>::iterator place_;
  int State::*const counter_;
};

Status HttpServer::State::listen() {
  boost::system::error_code ec;
  const asio::ip::address address = asio::ip::make_address(numeric(options.host), ec);
  if (ec) return Error{ErrorKind::usage, "bad_host", "the host must be an IP address or localhost", "--host"};
  const tcp::endpoint endpoint(address, options.port);
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(asio::socket_base::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) return Error{ErrorKind::network, "cannot_listen", "cannot listen there: " + ec.message(), "--port"};
  return {};
}

asio::awaitable<void> HttpServer::State::wait_a_moment() {
  asio::steady_timer timer(io, kRetryAccept);
  co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
}

void HttpServer::State::start_accepting() {
  insist([this] { asio::co_spawn(io, accept(), asio::detached); });
}

asio::awaitable<void> HttpServer::State::accept() {
  const Accepting accepting(*this);
  while (acceptor.is_open()) {
    if (refusing >= kMaxRefusing) {
      co_await wait_a_moment();
      continue;
    }
    auto [ec, socket] = co_await acceptor.async_accept(asio::as_tuple(asio::use_awaitable));
    if (ec == asio::error::operation_aborted || ec == asio::error::bad_descriptor) co_return;
    // Out of descriptors, buffers or memory: the peer waits in the backlog, and accepting at once again would only
    // spin.
    const bool admitted = !ec && admit(std::move(socket));
    if (!admitted) co_await wait_a_moment();
  }
}

// False when there was no memory: the peer sees its connection closed.
bool HttpServer::State::admit(tcp::socket socket) {
  try {
    const bool room = serving < options.max_connections;
    auto connection = std::make_shared<HttpConnection>(io, std::move(socket), options, handler, large_bodies);
    auto seat = std::make_unique<Seat>(*this, std::move(connection), room ? &State::serving : &State::refusing);
    // An exception ends that connection alone.
    if (room) {
      asio::co_spawn(io, serve(std::move(seat), [](HttpConnection& c) { return c.run(); }), asio::detached);
    } else {
      asio::co_spawn(io, serve(std::move(seat), [](HttpConnection& c) { return c.refuse(too_many_connections()); }),
                     asio::detached);
    }
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

template <class Run>
asio::awaitable<void> HttpServer::State::serve(std::unique_ptr<Seat> seat, Run run) {
  const std::unique_ptr<Seat> held = std::move(seat);
  co_await run(held->connection());
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::open(const HttpServerOptions& options, HttpHandler& handler) {
  auto state = std::make_unique<State>(options, handler);
  MARTLET_TRY(state->listen());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

void HttpServer::run() {
  State& s = *state_;
  s.start_accepting();
  // What finds no memory in Asio's own work ends there; everybody else goes on.
  s.thread = std::thread([&s] {
    for (bool over = false; !over;) if_memory_allows([&] { s.io.run(), over = true; });
  });
}

HttpServer::~HttpServer() {
  stop(std::chrono::milliseconds(0));
}

uint16_t HttpServer::port() const {
  return state_->acceptor.local_endpoint().port();
}

std::string HttpServer::address() const {
  const std::string host = numeric(state_->options.host);
  const bool v6 = host.find(':') != host.npos;
  return "http://" + (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port());
}

int HttpServer::connections() const {
  return state_->connections;
}

void HttpServer::post(std::function<void()> task) {
  insist([&] { asio::post(state_->io, std::function<void()>(task)); });  // a copy: an attempt that fails loses its own
}
void HttpServer::work(std::function<void()> task) {
  asio::post(state_->workers, std::move(task));
}

asio::io_context& HttpServer::io() {
  return state_->io;
}

void HttpServer::stop(std::chrono::milliseconds grace) {
  if (!state_->thread.joinable()) return;
  State& s = *state_;
  post([&s] {
    boost::system::error_code ignored;
    s.acceptor.close(ignored);
    for (const auto& connection : s.open) connection->stop();
  });
  const auto deadline = std::chrono::steady_clock::now() + grace;
  while (s.connections > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  s.workers.join();
  post([&s] {
    for (const auto& connection : s.open) connection->abort();
  });
  // Whoever still waits on a timer must not keep the thread: what is left is destroyed with the context.
  post([&s] { s.io.stop(); });
  s.thread.join();
}

bool is_address_host(const std::string& host) {
  boost::system::error_code ec;
  asio::ip::make_address(numeric(host), ec);
  return !ec;
}

bool is_loopback_host(const std::string& host) {
  boost::system::error_code ec;
  const asio::ip::address address = asio::ip::make_address(numeric(host), ec);
  return !ec && address.is_loopback();
}

}  // namespace martlet::net
