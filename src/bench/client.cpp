#include "bench/client.h"

#include <algorithm>
#include <limits>

#include <boost/json.hpp>

#include "net/event_reader.h"

namespace martlet::bench {
namespace {

namespace asio = boost::asio;
namespace json = boost::json;
using Clock = std::chrono::steady_clock;

// A server may compute a long prompt of a slow model before its first byte, and a whole queue before that.
constexpr net::HttpCallTimeouts kPatience{std::chrono::seconds(5), std::chrono::minutes(30), std::chrono::minutes(10)};

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
    m.last_token = now();
    if (pieces++ == 0) m.first_token = m.last_token;
    m.text += text;
  }
};

asio::awaitable<Status> read_stream(net::HttpCall& call, Stream& stream) {
  net::EventReader events;
  while (!stream.done && stream.m.error.empty()) {
    const Result<std::string> bytes = co_await call.read();
    if (!bytes) co_return bytes.error();
    if (bytes->empty()) break;
    if (!events.add(*bytes)) co_return Error{ErrorKind::network, "upstream_bad_answer", "an event is too long", ""};
    while (const auto event = events.next()) stream.take(event->data);
  }
  co_return Status();
}

}  // namespace

asio::awaitable<Measurement> ask(asio::io_context& io, const Endpoint& endpoint, Ask what, Clock::time_point begin) {
  Measurement m;
  const auto call = std::make_shared<net::HttpCall>(io, endpoint.peer, kPatience);
  const std::string body = body_of(endpoint, what);
  net::HttpCallRequest request{
      "POST", endpoint.base + "/v1/chat/completions", {{"content-type", "application/json"}}, body};
  if (!endpoint.api_key.empty()) request.fields.push_back({"authorization", "Bearer " + endpoint.api_key});
  Stream stream{m, begin};
  m.sent = stream.now();
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

}  // namespace martlet::bench
