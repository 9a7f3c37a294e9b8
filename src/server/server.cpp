#include "server/server.h"

#include <algorithm>
#include <mutex>

#include "server/access.h"
#include "server/access_log.h"
#include "server/error_response.h"
#include "server/handlers.h"
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
        handlers(options.policy, access.keys()),
        log(options.json_log),
        log_requests(options.log_requests) {}

  std::optional<HttpResponse> screen(const HttpRequest& head) override;
  void handle(std::shared_ptr<net::Exchange> exchange) override;
  void finished(const HttpRequest* request, int status, std::chrono::nanoseconds took) override;

  const Access access;
  Handlers handlers;
  AccessLog log;
  const bool log_requests;
  mutable std::mutex mutex;
  std::vector<std::shared_ptr<const ServedModel>> models;  // for this class's own use, under `mutex`
  std::unique_ptr<net::HttpServer> http;                   // last: its threads end first
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
  if (log_requests) log.request(route, status, took);
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Server::~Server() {
  if (state_) drain(0);
}

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options) {
  auto state = std::make_unique<State>(options);
  MARTLET_TRY(state->access.check());
  MARTLET_ASSIGN(state->http, net::HttpServer::open(options.http, *state));
  state->handlers.attach(state->http.get());
  state->http->run();
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

void Server::serve(std::shared_ptr<const ServedModel> model) {
  {
    std::lock_guard lock(state_->mutex);
    state_->models.push_back(model);
  }
  state_->http->post([this, model] { state_->handlers.serve(model); });
}

void Server::drain(double seconds) {
  state_->http->post([this] { state_->handlers.drain(); });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::vector<std::shared_ptr<const ServedModel>> models;
  {
    std::lock_guard lock(state_->mutex);
    models = state_->models;
  }
  for (const auto& model : models) {
    const std::chrono::duration<double> left = deadline - std::chrono::steady_clock::now();
    model->engine->drain(std::max(left.count(), 0.0));
  }
  state_->http->stop(kFlushTime);
}

bool Server::failed() const {
  std::lock_guard lock(state_->mutex);
  for (const auto& model : state_->models) {
    if (model->engine->stats().failed) return true;
  }
  return false;
}

void Server::note(std::string_view text) {
  state_->log.note(text);
}
std::string Server::address() const {
  return state_->http->address();
}

}  // namespace martlet::server
