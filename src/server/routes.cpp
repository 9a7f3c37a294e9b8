#include "server/routes.h"

#include "server/handlers.h"

namespace martlet::server {
namespace {

constexpr Route kRoutes[] = {
    // method, path, open, needs a model, JSON body
    {"POST", "/v1/chat/completions", false, true, true, &Handlers::chat},
    {"POST", "/v1/completions", false, true, true, &Handlers::text},
    {"GET", "/v1/models", false, false, false, &Handlers::models},
    {"GET", "/v1/models/*", false, false, false, &Handlers::model},
    {"POST", "/tokenize", false, true, true, &Handlers::tokenize},
    {"POST", "/detokenize", false, true, true, &Handlers::detokenize},
    {"GET", "/health", true, false, false, &Handlers::health},
    {"GET", "/metrics", false, false, false, &Handlers::metrics},
};

bool path_matches(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with('*')) return pattern == path;
  pattern.remove_suffix(1);
  return path.starts_with(pattern) && path.size() > pattern.size();
}

}  // namespace

std::span<const Route> routes() {
  return kRoutes;
}

Match match_route(std::string_view method, std::string_view path) {
  Match out;
  for (const Route& route : kRoutes) {
    if (!path_matches(route.path, path)) continue;
    const bool get = std::string_view(route.method) == "GET";  // HEAD is a GET whose answer has no body
    if (method == route.method || (get && method == "HEAD")) return {&route, {}};
    out.allow += (out.allow.empty() ? "" : ", ") + std::string(route.method) + (get ? ", HEAD" : "");
  }
  return out;
}

const char* route_name(const net::HttpRequest* request) {
  const Route* route = request ? match_route(request->method, request->path).route : nullptr;
  return route ? route->path : "other";
}

}  // namespace martlet::server
