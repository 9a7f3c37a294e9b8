#include "server/server.h"

#include <algorithm>
#include <mutex>

#include "server/access_log.h"
#include "server/api_keys.h"
#include "server/error_response.h"
#include "server/handlers.h"
#include "server/origin.h"
#include "server/routes.h"

namespace martlet::server {

using net::HttpRequest;
using net::HttpResponse;

namespace {

constexpr std::chrono::milliseconds kFlushTime{2000};  // for answers that are complete and not yet written

HttpResponse unauthorized() {
  HttpResponse out =
      net::error_response(401, "invalid_api_key", "A valid API key is needed: Authorization: Bearer KEY.");
  out.fields.push_back({"www-authenticate", "Bearer"});
  return out;
}

HttpResponse not_routed(const Match& match) {
  if (match.allow.empty()) return net::error_response(404, "not_found", "There is no such route.");
  HttpResponse out = net::error_response(405, "method_not_allowed", "This route does not have this method.");
  out.fields.push_back({"allow", match.allow});
  return out;
}

bool is_json(std::string_view content_type) {
  constexpr std::string_view kJson = "application/json";
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  if (type.size() < kJson.size() || type.find_first_not_of(" \t", kJson.size()) != type.npos) return false;
  return std::equal(kJson.begin(), kJson.end(), type.begin(), [](char a, char b) { return a == (b | 0x20) || a == b; });
}

}  // namespace

struct Server::State : net::HttpHandler {
  explicit State(const ServerOptions& options)
      : keys(options.api_keys),
        local_only(net::is_loopback_host(options.http.host)),
        handlers(options.policy, keys),
        log(options.json_log) {}

  std::optional<HttpResponse> screen(const HttpRequest& head) override;
  std::optional<HttpResponse> screen_access(const HttpRequest& head, const Route* route) const;
  void handle(std::shared_ptr<net::Exchange> exchange) override;
  void finished(const HttpRequest* request, int status, std::chrono::nanoseconds took) override;

  const ApiKeys keys;
  const bool local_only;
  Handlers handlers;
  AccessLog log;
  mutable std::mutex mutex;
  std::vector<std::shared_ptr<const ServedModel>> models;  // for this class's own use, under `mutex`
  std::unique_ptr<net::HttpServer> http;                   // last: its threads end first
};

// Who may speak at all comes before what they say: without a key, every path looks the same.
std::optional<HttpResponse> Server::State::screen_access(const HttpRequest& head, const Route* route) const {
  const bool open = keys.empty() || (route && route->open);
  if (!open && !keys.accepts_authorization(head.field("authorization"))) return unauthorized();
  const bool host = !head.has("host") || is_local_host(head.field("host"));
  const bool origin = !head.has("origin") || is_local_origin(head.field("origin"));
  if (local_only && !(host && origin)) {
    return net::error_response(403, "origin_not_allowed", "Requests by other names or from other pages are refused.");
  }
  return std::nullopt;
}

std::optional<HttpResponse> Server::State::screen(const HttpRequest& head) {
  const Match match = match_route(head.method, head.path);
  if (auto refusal = screen_access(head, match.route)) return refusal;
  if (!match.route) return not_routed(match);
  const std::string_view encoding = head.field("content-encoding");
  if (!encoding.empty() && encoding != "identity") {
    return net::error_response(415, "unsupported_encoding", "The body must not be compressed.");
  }
  if (match.route->json && !is_json(head.field("content-type"))) {
    return net::error_response(415, "unsupported_media_type", "The body must be application/json.");
  }
  return match.route->needs_model ? handlers.unavailable() : std::nullopt;
}

void Server::State::handle(std::shared_ptr<net::Exchange> exchange) {
  const HttpRequest& request = exchange->request();
  (handlers.*match_route(request.method, request.path).route->handle)(std::move(exchange));
}

void Server::State::finished(const HttpRequest* request, int status, std::chrono::nanoseconds took) {
  const char* route = route_name(request);
  handlers.counters().request(route, status, took);
  log.request(route, status, took);
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Server::~Server() {
  if (state_) drain(0);
}

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options) {
  auto state = std::make_unique<State>(options);
  if (!state->local_only && state->keys.empty()) {
    return Error{ErrorKind::usage, "key_needed",
                 "others could reach this server: give --api-key, or listen on 127.0.0.1", "--host"};
  }
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
