#include "gateway/gateway.h"

#include <algorithm>
#include <future>
#include <thread>
#include <utility>

#include <boost/json/serialize.hpp>

#include "gateway/draft_watch.h"
#include "gateway/file_facts.h"
#include "gateway/forward.h"
#include "gateway/memory_sum.h"
#include "gateway/preparation.h"
#include "gateway/pressure_watch.h"
#include "gateway/prober.h"
#include "gateway/supervisor.h"
#include "server/access.h"
#include "server/error_response.h"

namespace martlet::gateway {

namespace json = boost::json;
using net::HttpRequest;
using net::HttpResponse;

namespace {

constexpr std::chrono::milliseconds kFlushTime{2000};        // for answers that are complete and not yet written
constexpr size_t kStreamBuffer = (1u << 20) + (128u << 10);  // one event at its limit, and what the client is behind

HttpResponse json_response(json::object body, int status = 200) {
  HttpResponse response;
  response.status = status;
  response.body = json::serialize(body);
  return response;
}

const char* state_name(Breaker::State state) {
  constexpr const char* kNames[] = {"starting", "closed", "open", "half_open"};
  return kNames[static_cast<size_t>(state)];
}

Error shutting_down() {
  return {ErrorKind::unavailable, "shutting_down", "the gateway is shutting down", ""};
}

net::HttpServerOptions http_options(const GatewayConfig& config) {
  net::HttpServerOptions out;
  out.host = config.host;
  out.port = config.port;
  out.max_connections = config.connections;
  out.parser.body_bytes = config.max_body;
  out.stream_buffer = kStreamBuffer;
  return out;
}

}  // namespace

struct Gateway::State : net::HttpHandler {
  State(GatewayConfig config, bool json_log)
      : core(std::move(config), json_log),
        access(core.config.host, core.config.api_keys),
        admin(core.config.admin_keys),
        supervisor(core) {}

  using Handle = void (State::*)(const std::shared_ptr<net::Exchange>&);
  struct Route {
    const char* method;
    const char* path;  // "*": any rest
    bool open, json, admin;
    Handle handle;
  };
  static const Route kRoutes[];

  std::optional<HttpResponse> screen(const HttpRequest& head) override;
  void handle(std::shared_ptr<net::Exchange> exchange) override;
  void finished(const HttpRequest* request, int status, std::chrono::nanoseconds took) override;
  const Route* find_route(const HttpRequest& head, std::string* allow) const;
  std::optional<HttpResponse> screen_admin(const HttpRequest& head) const;

  void complete(const std::shared_ptr<net::Exchange>& exchange) { forward(core, exchange); }
  void models(const std::shared_ptr<net::Exchange>& exchange);
  void health(const std::shared_ptr<net::Exchange>& exchange);
  void metrics(const std::shared_ptr<net::Exchange>& exchange);
  void upstreams(const std::shared_ptr<net::Exchange>& exchange);
  void drain_upstream(const std::shared_ptr<net::Exchange>& exchange);

  void connect();
  void begin();
  template <class Question>
  auto ask(Question question);
  json::object describe(size_t upstream) const;
  bool can_serve(size_t model) const;

  Core core;
  const server::Access access;
  const server::ApiKeys admin;
  bool drained = false;
  std::vector<std::unique_ptr<InProcess>> inside;
  Supervisor supervisor;
  std::unique_ptr<net::HttpServer> http;  // last: what runs on it ends first
};

const Gateway::State::Route Gateway::State::kRoutes[] = {
    // method, path, open, JSON body, admin
    {"POST", "/v1/chat/completions", false, true, false, &State::complete},
    {"POST", "/v1/completions", false, true, false, &State::complete},
    {"GET", "/v1/models", false, false, false, &State::models},
    {"GET", "/health", true, false, false, &State::health},
    {"GET", "/metrics", false, false, false, &State::metrics},
    {"GET", "/admin/upstreams", true, false, true, &State::upstreams},
    {"POST", "/admin/upstreams/*", true, false, true, &State::drain_upstream},
};

const Gateway::State::Route* Gateway::State::find_route(const HttpRequest& head, std::string* allow) const {
  for (const Route& route : kRoutes) {
    std::string_view pattern = route.path;
    const bool any = pattern.ends_with('*');
    if (any) pattern.remove_suffix(1);
    if (any ? !head.path.starts_with(pattern) : head.path != pattern) continue;
    if (head.method == route.method) return &route;
    if (allow) *allow += (allow->empty() ? "" : ", ") + std::string(route.method);
  }
  return nullptr;
}

// Admin routes have keys of their own; without any they do not exist.
std::optional<HttpResponse> Gateway::State::screen_admin(const HttpRequest& head) const {
  if (admin.empty()) return net::error_response(404, "not_found", "There is no such route.");
  if (!admin.accepts_authorization(head.field("authorization"))) return server::unauthorized();
  return std::nullopt;
}

std::optional<HttpResponse> Gateway::State::screen(const HttpRequest& head) {
  std::string allow;
  const Route* route = find_route(head, &allow);
  if (auto refusal = access.screen(head, route && route->open)) return refusal;
  if (!route && allow.empty()) return net::error_response(404, "not_found", "There is no such route.");
  if (!route) {
    HttpResponse out = net::error_response(405, "method_not_allowed", "This route does not have this method.");
    out.fields.push_back({"allow", allow});
    return out;
  }
  if (route->admin) return screen_admin(head);
  if (auto refusal = server::screen_body(head, route->json)) return refusal;
  if (head.field("via").find(core.id) != std::string_view::npos) {
    return net::error_response(508, "loop_detected", "This request has come through this gateway before.");
  }
  if (route->json && core.draining) {
    return server::error_response(shutting_down());
  }
  return std::nullopt;
}

void Gateway::State::handle(std::shared_ptr<net::Exchange> exchange) {
  (this->*find_route(exchange->request(), nullptr)->handle)(exchange);
}

void Gateway::State::finished(const HttpRequest* request, int status, std::chrono::nanoseconds took) {
  const Route* route = request ? find_route(*request, nullptr) : nullptr;
  const char* name = route ? route->path : "other";
  core.metrics.request(name, status, took);
  core.log.request(request ? request->id : std::string_view(), name, status, took);
}

void Gateway::State::models(const std::shared_ptr<net::Exchange>& exchange) {
  json::array data;
  for (const std::string& model : core.models) {
    data.push_back(json::object{{"id", model}, {"object", "model"}, {"created", 0}, {"owned_by", "martlet"}});
  }
  exchange->reply(json_response({{"object", "list"}, {"data", std::move(data)}}));
}

bool Gateway::State::can_serve(size_t model) const {
  Wish wish;
  wish.model = model;
  const auto& instances = core.dispatcher.instances();
  return std::any_of(instances.begin(), instances.end(),
                     [&](const Dispatcher::Instance& instance) { return core.dispatcher.usable(instance, wish); });
}

void Gateway::State::health(const std::shared_ptr<net::Exchange>& exchange) {
  bool all = true;
  for (size_t model = 0; model < core.models.size(); ++model) all &= can_serve(model);
  const char* state = core.draining ? "draining" : all ? "ok" : "no_upstream";
  HttpResponse response = json_response({{"status", state}}, all && !core.draining ? 200 : 503);
  if (response.status == 503) response.fields.push_back({"retry-after", "1"});
  exchange->reply(std::move(response));
}

void Gateway::State::metrics(const std::shared_ptr<net::Exchange>& exchange) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = core.metrics.text(core.dispatcher, http->connections());
  exchange->reply(std::move(response));
}

json::object Gateway::State::describe(size_t upstream) const {
  json::array instances;
  for (const Dispatcher::Instance& instance : core.dispatcher.instances()) {
    if (instance.upstream != upstream) continue;
    instances.push_back(json::object{{"state", state_name(instance.breaker.state())},
                                     {"running", instance.running},
                                     {"preparing", instance.preparing},
                                     {"draining", instance.draining},
                                     {"retiring", instance.retiring}});
  }
  const UpstreamConfig& config = core.upstreams[upstream].config;
  json::array different(core.upstreams[upstream].different.begin(), core.upstreams[upstream].different.end());
  if (!core.upstreams[upstream].takes_ids.value_or(true)) different.emplace_back("token_ids");
  if (!core.upstreams[upstream].unfinished.empty()) different.emplace_back("unfinished");
  return {{"name", config.name},
          {"kind", kind_name(config.kind)},
          {"serves", config.serves},
          {"standby", config.standby},
          {"version", core.upstreams[upstream].version},
          {"apart", core.dispatcher.apart(upstream)},
          {"differences", std::move(different)},
          {"instances", std::move(instances)}};
}

void Gateway::State::upstreams(const std::shared_ptr<net::Exchange>& exchange) {
  json::array all;
  for (size_t u = 0; u < core.upstreams.size(); ++u) all.push_back(describe(u));
  exchange->reply(json_response({{"upstreams", std::move(all)}}));
}

// POST /admin/upstreams/NAME/drain or /resume
void Gateway::State::drain_upstream(const std::shared_ptr<net::Exchange>& exchange) {
  const std::string_view rest = std::string_view(exchange->request().path).substr(sizeof "/admin/upstreams/" - 1);
  const size_t slash = rest.find('/');
  const std::string_view name = rest.substr(0, slash), verb = slash == rest.npos ? "" : rest.substr(slash + 1);
  const auto at = std::find_if(core.upstreams.begin(), core.upstreams.end(),
                               [&](const Upstream& upstream) { return upstream.config.name == name; });
  if (at == core.upstreams.end() || (verb != "drain" && verb != "resume")) {
    return exchange->reply(net::error_response(404, "not_found", "There is no such upstream, or no such verb."));
  }
  const size_t upstream = at - core.upstreams.begin();
  for (Dispatcher::Instance& instance : core.dispatcher.instances()) {
    if (instance.upstream == upstream) instance.draining = verb == "drain";
  }
  core.note(upstream, {verb == "drain" ? "drained by the administrator" : "resumed by the administrator"});
  exchange->reply(json_response(describe(upstream)));
  core.settle();
}

// Upstreams that are where their configuration says.
void Gateway::State::connect() {
  for (size_t i = 0; i < core.peers.size(); ++i) {
    const Upstream& upstream = core.upstream_of(i);
    const UpstreamConfig& config = upstream.config;
    if (config.port != 0) core.peers[i] = std::make_shared<net::HttpPeer>(config.host, config.port, upstream.tls);
  }
}

// The first thing on the I/O thread. Children die with the thread that starts them, so it must be the one that lasts.
void Gateway::State::begin() {
  supervisor.start();
  start_probes(core, [this](size_t instance) { prepare(core, instance); });
  watch_upstreams(core);
  watch_drafts(core);
  watch_pressure(core, supervisor, make_pressure_sources(core.config));
}

Gateway::Gateway(std::unique_ptr<State> state) : state_(std::move(state)) {}

Gateway::~Gateway() {
  if (state_) drain(0);
}

namespace {

// Which of several upstreams an error is about.
Error about(const UpstreamConfig& upstream, Error error) {
  error.text = "upstream " + upstream.name + ": " + error.text;
  return error;
}

// What is known of an upstream before it runs.
struct Known {
  Fingerprint facts;                      // of its model's file
  std::shared_ptr<const TextModel> text;  // where the gateway makes its token ids
  std::shared_ptr<net::TlsClient> tls;    // where it is asked through TLS
};

Result<Known> read_model(const UpstreamConfig& upstream) {
  // An MLX server's model is a folder, unless it is the name of one that is elsewhere.
  const bool model_is_folder = upstream.kind == UpstreamKind::mlx_lm && is_model_folder(upstream.model);
  const std::string& path = upstream.file.empty() && model_is_folder ? upstream.model : upstream.file;
  if (path.empty()) return Known();
  if (is_model_folder(path) && !upstream.gateway_tokenizes) {
    MARTLET_ASSIGN(const ModelFolder folder, read_model_folder(path));
    return Known{facts_of(folder), nullptr, nullptr};
  }
  MARTLET_ASSIGN(TextModel model, open_text_model(path));
  Fingerprint facts = facts_of(model);
  if (!upstream.gateway_tokenizes) return Known{std::move(facts), nullptr, nullptr};
  return Known{std::move(facts), std::make_shared<const TextModel>(std::move(model)), nullptr};
}

Result<Known> known_of(const UpstreamConfig& upstream) {
  Result<Known> known = read_model(upstream);
  if (!known) return about(upstream, std::move(known.error()));
  if (!upstream.tls) return known;
  auto tls = net::TlsClient::create(upstream.tls_ca);
  if (!tls) return about(upstream, std::move(tls.error()));
  known->tls = std::move(*tls);
  return known;
}

// Drops what does not belong on this machine, and adds up what the rest takes. Returns the engines that are to be
// loaded: one for each upstream, without a `load` where it runs elsewhere.
Result<std::vector<PlannedEngine>> prepare_config(GatewayConfig& config, const PlanEngine& plan) {
  const Machine machine = this_machine();
  std::erase_if(config.upstreams, [&](const UpstreamConfig& upstream) { return !meets(machine, upstream.when); });
  if (config.upstreams.empty()) {
    return Error{ErrorKind::usage, "no_upstream_fits", "no upstream's conditions hold on this machine", config.path};
  }
  if (const Status access = server::Access(config.host, config.api_keys).check(); !access) {
    const bool key = access.error().code == "key_needed";
    return Error{ErrorKind::usage, access.error().code,
                 key ? "others could reach this gateway: give api_keys, or listen on 127.0.0.1"
                     : "listen: the host must be an IP address or localhost",
                 config.path};
  }
  std::vector<PlannedEngine> engines;
  std::vector<int64_t> peaks;
  for (const UpstreamConfig& upstream : config.upstreams) {
    Result<PlannedEngine> engine = PlannedEngine{upstream.supervised() ? upstream.memory : 0, nullptr, nullptr};
    if (upstream.kind == UpstreamKind::martlet) engine = plan(upstream);
    if (!engine) return about(upstream, std::move(engine.error()));
    peaks.push_back(engine->bytes);
    engines.push_back(std::move(*engine));
  }
  MARTLET_TRY(check_memory_sum(config, peaks));
  return engines;
}

}  // namespace

Status Gateway::check(GatewayConfig config, const PlanEngine& plan) {
  MARTLET_TRY(prepare_config(config, plan));
  for (const UpstreamConfig& upstream : config.upstreams) {
    MARTLET_TRY(known_of(upstream));
    if (!upstream.supervised() || net::find_program(upstream.command[0])) continue;
    return about(upstream, {ErrorKind::io, "cannot_start", "there is no such program", upstream.command[0]});
  }
  return {};
}

Result<std::unique_ptr<Gateway>> Gateway::start(GatewayConfig config, const PlanEngine& plan, bool json_log) {
  MARTLET_ASSIGN(const std::vector<PlannedEngine> planned, prepare_config(config, plan));
  std::vector<Known> known;
  for (const UpstreamConfig& upstream : config.upstreams) {
    MARTLET_ASSIGN(Known read, known_of(upstream));
    known.push_back(std::move(read));
  }
  std::vector<std::unique_ptr<InProcess>> inside;
  for (size_t u = 0; u < planned.size(); ++u) {
    if (!planned[u].load) continue;
    UpstreamConfig& upstream = config.upstreams[u];
    auto engine = InProcess::start(upstream, planned[u], config.max_body, json_log);
    if (!engine) return about(upstream, std::move(engine.error()));
    known[u].facts = (*engine)->facts();
    inside.push_back(std::move(*engine));
  }
  auto state = std::make_unique<State>(std::move(config), json_log);
  state->inside = std::move(inside);
  Core& core = state->core;
  for (size_t u = 0; u < known.size(); ++u) {
    core.upstreams[u].file_facts = std::move(known[u].facts);
    core.upstreams[u].text = std::move(known[u].text);
    core.upstreams[u].tls = std::move(known[u].tls);
  }
  MARTLET_TRY(state->supervisor.prepare());
  MARTLET_ASSIGN(state->http, net::HttpServer::open(http_options(core.config), *state));
  core.http = state->http.get();
  core.io = &state->http->io();
  state->connect();
  state->http->post([s = state.get()] { s->begin(); });
  state->http->run();
  return std::unique_ptr<Gateway>(new Gateway(std::move(state)));
}

// Asks the I/O thread.
template <class Question>
auto Gateway::State::ask(Question question) {
  std::promise<decltype(question())> answer;
  http->post([&] { answer.set_value(question()); });
  return answer.get_future().get();
}

void Gateway::drain(double seconds) {
  State& s = *state_;
  if (std::exchange(s.drained, true)) return;
  const Time end = s.core.now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  const auto busy = [&s] {
    s.core.draining = true;
    const auto& instances = s.core.dispatcher.instances();
    return s.core.dispatcher.waiting() > 0 ||
           std::any_of(instances.begin(), instances.end(), [](const auto& instance) { return instance.running > 0; });
  };
  while (s.ask(busy) && s.core.now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const Error over = shutting_down();
  s.ask([&] {
    for (Unanswered* request : s.core.unanswered) request->fail(over);
    return s.core.closing = true;
  });
  s.supervisor.stop();
  s.http->stop(kFlushTime);
  for (const auto& engine : s.inside) engine->drain(0);
}

std::optional<Error> Gateway::failure() const {
  for (const auto& engine : state_->inside) {
    if (std::optional<Error> failure = engine->failure()) return failure;
  }
  return std::nullopt;
}

std::string Gateway::address() const {
  return state_->http->address();
}
void Gateway::note(std::string_view text) {
  state_->core.log.note(text);
}

}  // namespace martlet::gateway
