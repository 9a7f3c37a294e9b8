#include "server/server.h"

#include <algorithm>

#include "base/out_of_memory.h"
#include "server/access.h"
#include "server/access_log.h"
#include "server/error_response.h"
#include "server/handlers.h"
#include "server/pressure_watch.h"
#include "server/routes.h"

namespace martlet::server {

using net::HttpRequest;
using net::HttpResponse;

namespace {

constexpr std::chrono::milliseconds kFlushTime{2000};  // for answers that are complete and not yet written

HttpResponse not_routed(const Match& match) {
  if (match.allow.empty()) return net::error_response(404, "not_found", "There is no such route.");
  HttpResponse out = net::error_response(405, "method_not_allowed", "This route does not have this method.");
  out.fields.push_back({"allow", match.allow});
  return out;
}

}  // namespace

struct Server::State : net::HttpHandler {
  explicit State(const ServerOptions& options)
      : access(options.http.host, options.api_keys),
        log(options.json_log, options.live_line),
        models(options.memory, options.keep_alive),
        handlers(options.policy, access.keys(), models, options.log_requests ? &log : nullptr),
        log_requests(options.log_requests) {}

  std::optional<HttpResponse> screen(const HttpRequest& head) override;
  void handle(std::shared_ptr<net::Exchange> exchange) override;
  void finished(const HttpRequest* request, int status, std::chrono::nanoseconds took) override;

  void react(net::MemoryPressure level, const net::PressureResponse::Advice& advice);

  const Access access;
  AccessLog log;  // before the models: engines say while they end what became of their caches
  ModelManager models;
  Handlers handlers;
  const bool log_requests;
  net::MemoryPressure pressure = net::MemoryPressure::none;  // at the last look, as is `refusing`
  bool refusing = false;
  std::unique_ptr<net::HttpServer> http;  // after what its threads use
  std::unique_ptr<PressureWatch> watch;
};

std::optional<HttpResponse> Server::State::screen(const HttpRequest& head) {
  const Match match = match_route(head.method, head.path);
  if (auto refusal = access.screen(head, match.route && match.route->open)) return refusal;
  if (!match.route) return not_routed(match);
  if (auto refusal = screen_body(head, match.route->json)) return refusal;
  return match.route->needs_model ? handlers.unavailable() : std::nullopt;
}

void Server::State::handle(std::shared_ptr<net::Exchange> exchange) {
  const HttpRequest& request = exchange->request();
  (handlers.*match_route(request.method, request.path).route->handle)(std::move(exchange));
}

void Server::State::finished(const HttpRequest* request, int status, std::chrono::nanoseconds took) {
  const char* route = route_name(request);
  handlers.counters().request(route, status, took);
  if (log_requests) log.request(request ? request->id : std::string_view(), route, status, took);
}

// Caches go at the first sign; models that nobody uses follow when it is serious.
void Server::State::react(net::MemoryPressure level, const net::PressureResponse::Advice& advice) {
  if (advice.shed) models.drop_caches();
  if (level == net::MemoryPressure::critical) models.unload_idle();
  handlers.set_pressure(level, advice.refuse);
  if (level != pressure) log.note(std::string("memory pressure: ") + net::name_of(level));
  if (advice.refuse != refusing) log.note(advice.refuse ? "new work is refused" : "new work is taken again");
  pressure = level;
  refusing = advice.refuse;
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Server::~Server() {
  if (!state_) return;
  state_->watch.reset();
  insist([this] { drain(0); });
  state_->models.stop();
}

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options) {
  auto state = std::make_unique<State>(options);
  MARTLET_TRY(state->access.check());
  MARTLET_ASSIGN(state->http, net::HttpServer::open(options.http, *state));
  state->handlers.attach(state->http.get());
  state->http->run();
  if (options.pressure) {
    state->watch = std::make_unique<PressureWatch>(
        options.pressure, options.pressure_interval,
        [s = state.get()](net::MemoryPressure level, const auto& advice) { s->react(level, advice); });
  }
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

ModelManager& Server::models() {
  return state_->models;
}

void Server::open() {
  state_->handlers.open();
}

void Server::serve(std::shared_ptr<const ServedModel> model) {
  state_->models.add(std::move(model));
  open();
}

void Server::drain(double seconds) {
  state_->handlers.drain();
  state_->models.drain(seconds);
  state_->http->stop(kFlushTime);
}

std::optional<Error> Server::failure() const {
  return state_->models.failure();
}

EngineStats Server::stats() const {
  return state_->handlers.total_stats();
}
MemoryReport Server::memory() const {
  return state_->handlers.memory();
}

void Server::note(std::string_view text) {
  state_->log.note(text);
}
std::string Server::address() const {
  return state_->http->address();
}

}  // namespace martlet::server
