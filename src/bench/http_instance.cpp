#include "bench/http_instance.h"

#include <algorithm>
#include <limits>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/json.hpp>

#include "net/download.h"
#include "net/event_reader.h"

namespace martlet::bench {
namespace {

namespace asio = boost::asio;
namespace json = boost::json;
using Clock = std::chrono::steady_clock;

// A server may compute a long prompt of a slow model before its first byte, and a whole queue before that.
constexpr net::HttpCallTimeouts kPatience{std::chrono::seconds(5), std::chrono::minutes(30), std::chrono::minutes(10)};

constexpr auto kSoon = std::chrono::seconds(5);  // what asks how a server is

std::string body_of(const Endpoint& endpoint, const Ask& what) {
  return json::serialize(json::object{{"model", endpoint.model},
                                      {"messages", {{{"role", "user"}, {"content", what.prompt}}}},
                                      {"temperature", 0},
                                      {"max_tokens", what.max_tokens},
                                      {"stream", true},
                                      {"stream_options", {{"include_usage", true}}}});
}

const json::value* find(const json::value* from, std::string_view name) {
  if (!from || !from->is_object()) return nullptr;
  return from->get_object().if_contains(json::string_view(name.data(), name.size()));
}

int integer(const json::value* v) {
  json::error_code code;
  const int64_t n = v && v->is_number() ? v->to_number<int64_t>(code) : 0;
  return code ? 0 : static_cast<int>(std::clamp<int64_t>(n, 0, std::numeric_limits<int>::max()));
}

std::string string_of(const json::value* v) {
  return v && v->is_string() ? std::string(v->get_string().data(), v->get_string().size()) : std::string();
}

// What the stream has told so far.
struct Stream {
  Measurement& m;
  Clock::time_point begin;
  double arrived = 0;  // the bytes that are just being read
  int pieces = 0;
  bool counted = false, done = false;

  double now() const { return std::chrono::duration<double>(Clock::now() - begin).count(); }

  void take(const std::string& data) {
    if (data == "[DONE]") {
      done = true;
      return;
    }
    json::error_code code;
    const json::value event = json::parse(data, code);
    if (code) return void(m.error = "an event is no JSON");
    if (find(&event, "error")) return void(m.error = "the stream ended with an error");
    if (const json::value* usage = find(&event, "usage"); usage && usage->is_object()) {
      counted = true;
      m.prompt_tokens = integer(find(usage, "prompt_tokens"));
      m.output_tokens = integer(find(usage, "completion_tokens"));
      m.cached_tokens = integer(find(find(usage, "prompt_tokens_details"), "cached_tokens"));
    }
    const json::value* choices = find(&event, "choices");
    if (!choices || !choices->is_array() || choices->get_array().empty()) return;
    const json::value* choice = &choices->get_array()[0];
    if (const std::string reason = string_of(find(choice, "finish_reason")); !reason.empty()) m.finish_reason = reason;
    piece(string_of(find(find(choice, "delta"), "content")));
  }

  void piece(const std::string& text) {
    if (text.empty()) return;
    m.last_token = arrived;
    if (pieces++ == 0) m.first_token = m.last_token;
    m.text += text;
  }
};

asio::awaitable<Status> read_stream(net::HttpCall& call, Stream& stream) {
  net::EventReader events;
  while (!stream.done && stream.m.error.empty()) {
    const Result<std::string> bytes = co_await call.read();
    if (!bytes) co_return bytes.error();
    stream.arrived = stream.now();
    if (bytes->empty()) break;
    if (!events.add(*bytes)) co_return Error{ErrorKind::network, "upstream_bad_answer", "an event is too long", ""};
    while (const auto event = events.next()) stream.take(event->data);
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
  out = lists ? string_of(find(&data->get_array()[0], "id")) : std::string();
}

}  // namespace

HttpInstance::HttpInstance(Endpoint endpoint) : endpoint_(std::move(endpoint)) {}

asio::awaitable<Measurement> HttpInstance::ask(asio::io_context& io, const Ask& what, Clock::time_point begin) {
  Measurement m;
  const std::string body = body_of(endpoint_, what);
  net::HttpCallRequest request{"POST", endpoint_.base + "/v1/chat/completions", fields_of(endpoint_), body};
  request.fields.push_back({"content-type", "application/json"});
  Stream stream{.m = m, .begin = begin};
  m.sent = stream.now();
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
  const Status read = co_await read_stream(*call, stream);
  if (!read && m.error.empty()) m.error = read.error().code;
  if (!stream.counted) m.output_tokens = stream.pieces;
  if (m.error.empty() && stream.pieces == 0) m.error = "no text";
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
