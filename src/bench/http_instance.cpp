#include "bench/http_instance.h"

#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "bench/chat_stream.h"
#include "bench/json_access.h"
#include "net/download.h"
#include "net/event_reader.h"

namespace martlet::bench {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

// A server may compute a long prompt of a slow model before its first byte, and a whole queue before that.
constexpr net::HttpCallTimeouts kPatience{std::chrono::seconds(5), std::chrono::minutes(30), std::chrono::minutes(10)};

constexpr auto kSoon = std::chrono::seconds(5);  // what asks how a server is

std::string body_of(const Endpoint& endpoint, const Ask& what) {
  json::object body{{"model", endpoint.model},
                    {"messages", {{{"role", "user"}, {"content", what.prompt}}}},
                    {"temperature", 0},
                    {"max_tokens", what.max_tokens},
                    {"stream", true}};
  if (!endpoint.request.empty()) {
    const json::value more = json::parse(endpoint.request);  // the program's own text
    for (const auto& [name, value] : more.as_object()) body[name] = value;
  }
  body["stream_options"] = json::object{{"include_usage", true}};
  return json::serialize(body);
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

asio::awaitable<Status> read_stream(net::HttpCall& call, ChatStream& stream, const Ask& what, Clock::time_point begin) {
  net::EventReader events;
  net::Event event;
  std::string bytes;
  bool told = false;
  while (!stream.ended()) {
    const Status read = co_await call.read(bytes);
    if (!read) co_return read;
    const double arrived = seconds_since(begin);
    if (bytes.empty()) break;
    if (!events.add(bytes)) co_return Error{ErrorKind::network, "upstream_bad_answer", "an event is too long", ""};
    while (events.next(event)) stream.take(event.data, arrived);
    if (stream.has_text() && !std::exchange(told, true)) what.first_text();
  }
  co_return Status();
}

std::shared_ptr<net::HttpCall> open_call(asio::io_context& io, const Endpoint& endpoint,
                                         const net::HttpCallTimeouts& timeouts) {
  return std::make_shared<net::HttpCall>(io, std::make_shared<net::HttpPeer>(endpoint.host, endpoint.port), timeouts);
}

std::vector<net::HttpField> fields_of(const Endpoint& endpoint) {
  std::vector<net::HttpField> fields;
  if (!endpoint.api_key.empty()) fields.push_back({"authorization", "Bearer " + endpoint.api_key});
  return fields;
}

asio::awaitable<void> get_status(asio::io_context& io, const Endpoint& endpoint, const std::string& path, int& status) {
  const auto call = open_call(io, endpoint, {kSoon, kSoon, kSoon});
  net::HttpCallRequest request{"GET", endpoint.base + path, fields_of(endpoint), {}};
  const Result<net::HttpAnswerHead> head = co_await call->send(std::move(request));
  if (head) status = head->status;
}

asio::awaitable<void> list_models(asio::io_context& io, const Endpoint& endpoint, std::optional<std::string>& out) {
  const auto call = open_call(io, endpoint, {kSoon, kSoon, kSoon});
  net::HttpCallRequest request{"GET", endpoint.base + "/v1/models", fields_of(endpoint), {}};
  const Result<net::HttpAnswerHead> head = co_await call->send(std::move(request));
  if (!head || head->status != 200) co_return;
  const Result<std::string> body = co_await call->read_all(16u << 20);
  json::error_code code;
  if (!body) co_return;
  const json::value answer = json::parse(*body, code);
  const json::value* data = find(&answer, "data");
  if (code) co_return;
  const bool lists = data && data->is_array() && !data->get_array().empty();
  out = std::string(lists ? string_of(find(&data->get_array()[0], "id")) : "");
}

}  // namespace

HttpInstance::HttpInstance(Endpoint endpoint) : endpoint_(std::move(endpoint)) {}

asio::awaitable<Measurement> HttpInstance::ask(asio::io_context& io, const Ask& what, Clock::time_point begin) {
  Measurement m;
  const std::string body = body_of(endpoint_, what);
  net::HttpCallRequest request{"POST", endpoint_.base + "/v1/chat/completions", fields_of(endpoint_), body};
  request.fields.push_back({"content-type", "application/json"});
  ChatStream stream(m);
  m.sent = seconds_since(begin);
  const auto call = open_call(io, endpoint_, kPatience);
  const Result<net::HttpAnswerHead> head = co_await call->send(std::move(request));
  if (!head) {
    m.error = head.error().code;
    co_return m;
  }
  if (head->status != 200) {
    m.error = "HTTP " + std::to_string(head->status);
    co_return m;
  }
  const Status read = co_await read_stream(*call, stream, what, begin);
  if (!read && m.error.empty()) m.error = read.error().code;
  stream.finish();
  co_return m;
}

Result<Endpoint> parse_endpoint(const std::string& url, const std::string& where) {
  const Error bad{ErrorKind::usage, "invalid_value", "must be http://host[:port][/prefix]", where};
  const std::string origin = origin_of(url);  // "http://host:port"
  if (!origin.starts_with("http://") || url.find_first_of("?#") != url.npos) return bad;
  Endpoint out;
  const size_t colon = origin.rfind(':');
  out.host = origin.substr(7, colon - 7);
  if (out.host.starts_with('[')) out.host = out.host.substr(1, out.host.size() - 2);
  out.port = static_cast<uint16_t>(std::stoi(origin.substr(colon + 1)));
  const size_t path = url.find('/', 7);
  if (path != url.npos) out.base = url.substr(path);
  while (out.base.ends_with('/')) out.base.pop_back();
  if (out.base.ends_with("/v1")) out.base.resize(out.base.size() - 3);
  return out;
}

std::optional<std::string> first_model(const Endpoint& endpoint) {
  asio::io_context io;
  std::optional<std::string> name;
  asio::co_spawn(io, list_models(io, endpoint, name), asio::detached);
  io.run();
  return name;
}

bool answers(const Endpoint& endpoint, const std::string& path) {
  asio::io_context io;
  int status = 0;
  asio::co_spawn(io, get_status(io, endpoint, path, status), asio::detached);
  io.run();
  return status == 200;
}

Result<std::unique_ptr<Instance>> UrlTarget::start(const StopAsked&) {
  Endpoint endpoint = endpoint_;
  if (endpoint.model.empty()) {
    const std::optional<std::string> name = first_model(endpoint);
    if (!name) {
      return Error{ErrorKind::network, "engine_unreachable", "the server lists no models: /v1/models does not answer",
                   info_.name};
    }
    endpoint.model = *name;
  }
  return std::unique_ptr<Instance>(std::make_unique<HttpInstance>(std::move(endpoint)));
}

}  // namespace martlet::bench
