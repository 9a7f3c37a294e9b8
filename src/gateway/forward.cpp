#include "gateway/forward.h"

#include <algorithm>
#include <optional>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/serialize.hpp>

#include "gateway/answer.h"
#include "gateway/body.h"
#include "gateway/trace.h"
#include "net/event_reader.h"
#include "net/sse.h"
#include "server/error_response.h"

namespace martlet::gateway {

// As in net/http_connection.cpp: every co_await stands alone in its statement (g++ 12).

namespace asio = boost::asio;

namespace {

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr size_t kInlineBody = 64u << 10;  // larger ones are parsed on a worker
constexpr size_t kWaiting = 64u << 10;     // bytes for the client beyond which the upstream is not read
constexpr size_t kAnswerBytes = 1u << 20;  // of an answer that is checked as a whole, and of one event
constexpr int kAttempts = 2;

// What servers call their events; anything else is not passed on.
bool is_event_name(const std::string& name) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  return !name.empty() && name.size() <= 64 && name.find_first_not_of(kAllowed) == name.npos;
}

// An instance counts a request until this ends.
class Lease {
 public:
  Lease(Core& core, size_t instance) : core_(core), instance_(instance) {}
  ~Lease() {
    core_.dispatcher.release(instance_);
    core_.settle();
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

 private:
  Core& core_;
  size_t instance_;
};

// How an attempt ended.
struct Outcome {
  bool answered = false;  // the client has its answer, or has left
  Error error;            // otherwise
};

class Forward : public std::enable_shared_from_this<Forward> {
 public:
  Forward(Core& core, std::shared_ptr<net::Exchange> exchange, RequestFacts facts, size_t model)
      : core_(core),
        exchange_(std::move(exchange)),
        facts_(std::move(facts)),
        trace_(trace_of(exchange_->request())),
        body_(std::move(exchange_->request().body)),
        wake_(*core.io) {
    wish_.model = model;
    wish_.prefix = facts_.prefix;
  }

  void start() {
    exchange_->on_close([self = shared_from_this()] { self->leave(); });
    exchange_->on_taken([self = shared_from_this()] { self->wake_.cancel(); });
    asio::co_spawn(
        *core_.io, [self = shared_from_this()] { return self->run(); }, asio::detached);
  }

 private:
  asio::awaitable<void> run();
  asio::awaitable<Result<size_t>> acquire();
  asio::awaitable<Outcome> attempt(size_t instance);
  asio::awaitable<Outcome> relay_whole(size_t instance, int status);
  asio::awaitable<Outcome> relay_stream(size_t instance);
  asio::awaitable<Outcome> relay_refusal(size_t instance, const net::HttpAnswerHead& head);
  asio::awaitable<void> hold_back();
  // Sends the events that are there; the error that ends the stream, if one does.
  std::optional<Error> pass_events(size_t instance, net::EventReader& reader);
  std::optional<Error> pass_event(size_t instance, net::Event event);
  void leave() {
    left_ = true;
    wake_.cancel();
    if (call_) call_->cancel();
  }
  void plan_tokens();
  net::HttpCallRequest request_for(const Upstream& upstream, std::string& body) const;
  net::HttpResponse with_names(net::HttpResponse response, const Upstream* upstream) const;
  Outcome failed(size_t instance, Error error);
  void judge(size_t instance, const Error& error);
  void began_answer(size_t instance);
  void learn(size_t instance, const AnswerFacts& facts);
  void learn_from_arrivals(size_t instance);
  void show_drafts(size_t instance);
  // An upstream that shows its own key in an answer does not get it past us.
  bool shows_key(size_t instance, std::string_view text) const {
    const std::string& key = core_.upstream_of(instance).config.api_key;
    return !key.empty() && text.find(key) != text.npos;
  }
  Breaker& breaker(size_t instance) { return core_.dispatcher.instances()[instance].breaker; }

  Core& core_;
  const std::shared_ptr<net::Exchange> exchange_;
  const RequestFacts facts_;
  const Trace trace_;
  const std::string body_;
  Wish wish_;
  const Time arrived_ = std::chrono::steady_clock::now();
  asio::steady_timer wake_;  // cancelled to wake whatever waits
  std::shared_ptr<net::HttpCall> call_;
  Breaker::Era era_ = 0;                      // of the attempt's instance, when it began
  size_t failed_on_ = 0;                      // the instance of the attempt before
  bool left_ = false;                         // the client
  bool begun_ = false;                        // the client has the first byte
  bool drafting_ = false, reported_ = false;  // drafts were asked for; the answer counts them
  DraftEstimate arrivals_;
  bool held_back_ = false;  // the client took the answer slower than it came
  bool ended_ = false;      // the stream's own end was passed on
};

void Forward::plan_tokens() {
  const auto same = [&](const Upstream& u) { return u.config.serves == core_.models[wish_.model]; };
  const auto upstream = std::find_if(core_.upstreams.begin(), core_.upstreams.end(), same);
  wish_.tokens = upstream->estimate.tokens(facts_.prompt_bytes) + facts_.answer_tokens;
  const Time now = core_.now();
  wish_.without_drafts = std::any_of(core_.upstreams.begin(), core_.upstreams.end(), [&](const Upstream& u) {
    return same(u) && u.config.drafts && !u.drafts.drafts(now);
  });
}

asio::awaitable<Result<size_t>> Forward::acquire() {
  std::optional<Result<size_t>> granted;
  const Time since = core_.now();
  const Dispatcher::Ticket ticket = core_.dispatcher.request(wish_, since, [&](Result<size_t> result) {
    granted = std::move(result);
    if (*granted) era_ = breaker(**granted).era();
    wake_.cancel();
  });
  while (!granted && !left_) {
    wake_.expires_after(std::chrono::hours(24));
    co_await wake_.async_wait(kTuple);
  }
  core_.dispatcher.withdraw(ticket);
  core_.metrics.queued(core_.now() - since);
  if (!granted) co_return Error{ErrorKind::unavailable, "cancelled", "the client has left", ""};
  co_return std::move(*granted);
}

asio::awaitable<void> Forward::run() {
  plan_tokens();
  Error last;
  for (int i = 0; i < kAttempts; ++i) {
    Result<size_t> instance = co_await acquire();
    // The peer may just have been closing a connection that was kept: where there is nobody else, that is no verdict.
    if (!instance && i > 0 && call_ && call_->was_kept() && last.code == "upstream_disconnected") {
      wish_.tried.clear();
      instance = co_await acquire();
    }
    if (!instance) {
      if (i == 0) last = instance.error();
      break;
    }
    const Lease lease(core_, *instance);
    if (left_) co_return breaker(*instance).abandoned(era_);
    if (i > 0) core_.metrics.failover(core_.dispatcher.instances()[failed_on_].upstream);
    Outcome outcome = co_await attempt(*instance);
    if (outcome.answered) co_return;
    last = std::move(outcome.error);
    failed_on_ = *instance;
    wish_.tried.push_back(failed_on_);
  }
  if (!left_) exchange_->reply(with_names(upstream_error_response(last), nullptr));
}

net::HttpCallRequest Forward::request_for(const Upstream& upstream, std::string& body) const {
  const UpstreamConfig& config = upstream.config;
  body = with_member(body_, "model", boost::json::serialize(boost::json::value(config.model)));
  if (!config.drafts_off_field.empty() && !drafting_) {
    body = with_member(body, config.drafts_off_field, config.drafts_off_json);
  }
  const net::HttpRequest& from = exchange_->request();
  net::HttpCallRequest out;
  out.method = "POST";
  out.target = config.base + from.path;
  out.body = body;
  // A list of its own, not the client's less some: no key, cookie or hop-by-hop field can slip through.
  out.fields = {{"content-type", "application/json"},
                {"accept", facts_.stream ? "text/event-stream" : "application/json"},
                {"x-request-id", trace_.request_id},
                {"traceparent", trace_.traceparent},
                {"via", (from.has("via") ? std::string(from.field("via")) + ", " : "") + "1.1 " + core_.id}};
  if (!trace_.tracestate.empty()) out.fields.push_back({"tracestate", trace_.tracestate});
  if (!config.api_key.empty()) out.fields.push_back({"authorization", "Bearer " + config.api_key});
  return out;
}

net::HttpResponse Forward::with_names(net::HttpResponse response, const Upstream* upstream) const {
  response.fields.push_back({"x-request-id", trace_.request_id});
  if (upstream) response.fields.push_back({"x-martlet-upstream", upstream->config.name});
  return response;
}

// A failure before the answer's first byte.
Outcome Forward::failed(size_t instance, Error error) {
  const size_t upstream = core_.dispatcher.instances()[instance].upstream;
  if (left_) {
    breaker(instance).abandoned(era_);
    core_.metrics.attempt(upstream, "abandoned");
    return {true, {}};
  }
  const bool refused = says_nothing_of_health(error);
  judge(instance, error);
  core_.note_failure(upstream, error);
  core_.metrics.attempt(upstream, refused ? "refused" : "failed");
  return {false, std::move(error)};
}

// What the failure of a request says of its instance.
void Forward::judge(size_t instance, const Error& error) {
  if (left_ || says_nothing_of_health(error)) return breaker(instance).abandoned(era_);
  const bool was_up = breaker(instance).state() != Breaker::State::open;
  breaker(instance).failed(era_, error.code == "upstream_unreachable", core_.now());
  if (was_up && breaker(instance).state() == Breaker::State::open) {
    core_.note(core_.dispatcher.instances()[instance].upstream, "down: " + error.text);
  }
}

void Forward::began_answer(size_t instance) {
  breaker(instance).succeeded(era_);
  core_.settle();
  core_.upstream_of(instance).noted.clear();
  core_.metrics.first_byte(core_.dispatcher.instances()[instance].upstream, core_.now() - arrived_);
  begun_ = true;
}

void Forward::learn(size_t instance, const AnswerFacts& facts) {
  Upstream& upstream = core_.upstream_of(instance);
  upstream.estimate.learn(facts_.prompt_bytes, facts.prompt_tokens);
  if (facts.drafted == 0) return;
  reported_ = true;
  upstream.drafts.saw(facts.drafted, facts.accepted, core_.now());
  show_drafts(instance);
}

// What a whole stream tells of drafts by its pace.
void Forward::learn_from_arrivals(size_t instance) {
  Upstream& upstream = core_.upstream_of(instance);
  if (!upstream.config.drafts || held_back_) return;  // the pace of a slow client is not the upstream's
  const Time now = core_.now();
  if (drafting_ && !reported_) {
    const DraftEstimate::Counts counts = arrivals_.counts(upstream.config.draft_length);
    upstream.drafts.saw(counts.drafted, counts.accepted, now);
  }
  if (const double rate = arrivals_.tokens_per_second(); rate > 0) upstream.draft_rates.saw(drafting_, rate);
  if (upstream.draft_rates.found_slower()) upstream.drafts.switch_off(now);
  show_drafts(instance);
}

void Forward::show_drafts(size_t instance) {
  const DraftRule& drafts = core_.upstream_of(instance).drafts;
  core_.metrics.acceptance(core_.dispatcher.instances()[instance].upstream, drafts.acceptance(),
                           drafts.drafts(core_.now()));
}

asio::awaitable<Outcome> Forward::attempt(size_t instance) {
  const std::shared_ptr<net::HttpPeer> peer = core_.peers[instance];
  const Upstream& upstream = core_.upstream_of(instance);
  const UpstreamTimeouts& timeouts = upstream.config.timeouts;
  if (!peer) co_return failed(instance, {ErrorKind::network, "upstream_unreachable", "the upstream is not there", ""});
  call_ = std::make_shared<net::HttpCall>(
      *core_.io, peer, net::HttpCallTimeouts{timeouts.connect, timeouts.first_byte, timeouts.between});
  drafting_ = upstream.config.drafts && upstream.drafts.drafts(core_.now());
  std::string body;
  net::HttpCallRequest request = request_for(upstream, body);
  Result<net::HttpAnswerHead> head = co_await call_->send(std::move(request));
  if (!head) co_return failed(instance, std::move(head.error()));
  body = {};
  const Verdict verdict = verdict_of(head->status);
  Outcome outcome;
  if (verdict == Verdict::pass_on) {
    outcome = co_await relay_refusal(instance, *head);
  } else if (verdict != Verdict::answer) {
    call_->cancel();
    co_return failed(instance, verdict_error(verdict, head->status));
  } else if (facts_.stream && head->field("content-type").starts_with("text/event-stream")) {
    outcome = co_await relay_stream(instance);
  } else {
    outcome = co_await relay_whole(instance, head->status);
  }
  if (!outcome.answered) call_->cancel();
  co_return outcome;
}

// An answer to the client's own mistake: any other upstream would give it too.
asio::awaitable<Outcome> Forward::relay_refusal(size_t instance, const net::HttpAnswerHead& head) {
  Result<std::string> text = co_await call_->read_all(kAnswerBytes);
  if (!text) co_return failed(instance, std::move(text.error()));
  began_answer(instance);
  core_.metrics.attempt(core_.dispatcher.instances()[instance].upstream, "answered");
  const std::string_view words = shows_key(instance, *text) ? std::string_view() : *text;
  exchange_->reply(with_names(refusal_response(head.status, words), &core_.upstream_of(instance)));
  co_return Outcome{true, {}};
}

asio::awaitable<Outcome> Forward::relay_whole(size_t instance, int status) {
  Result<std::string> text = co_await call_->read_all(kAnswerBytes);
  if (!text) co_return failed(instance, std::move(text.error()));
  AnswerFacts facts;
  if (!inspect_answer(*text, facts) || shows_key(instance, *text)) {
    co_return failed(instance, {ErrorKind::network, "upstream_bad_answer", "the upstream's answer makes no sense", ""});
  }
  if (facts.error) {
    co_return failed(instance, {ErrorKind::network, "upstream_error", "the upstream answered with an error", ""});
  }
  began_answer(instance);
  learn(instance, facts);
  core_.metrics.attempt(core_.dispatcher.instances()[instance].upstream, "answered");
  net::HttpResponse response;
  response.status = status;
  response.body =
      with_member_replaced(*text, "model", boost::json::serialize(boost::json::value(core_.models[wish_.model])));
  exchange_->reply(with_names(std::move(response), &core_.upstream_of(instance)));
  co_return Outcome{true, {}};
}

// Until the client has taken enough of what it has.
asio::awaitable<void> Forward::hold_back() {
  while (exchange_->waiting() > kWaiting && !left_) {
    held_back_ = true;
    wake_.expires_after(std::chrono::hours(24));
    co_await wake_.async_wait(kTuple);
  }
}

std::optional<Error> Forward::pass_event(size_t instance, net::Event event) {
  AnswerFacts facts;
  const bool done = event.data == "[DONE]";
  if (!done && (!inspect_answer(event.data, facts) || shows_key(instance, event.data))) {
    return Error{ErrorKind::network, "upstream_bad_answer", "an event of the upstream makes no sense", ""};
  }
  if (facts.error || event.name == "error") {
    return Error{ErrorKind::network, "upstream_error", "the upstream ended with an error", ""};
  }
  learn(instance, facts);
  if (!begun_) {
    began_answer(instance);
    net::HttpResponse head = with_names(net::sse_head(), &core_.upstream_of(instance));
    exchange_->begin_stream(std::move(head), std::string(net::kSseComment));
  }
  ended_ = done;
  if (!done) {
    arrivals_.arrived(core_.now());
    const std::string model = boost::json::serialize(boost::json::value(core_.models[wish_.model]));
    event.data = with_member_replaced(event.data, "model", model);
    // Either ends a line to a client: an upstream's bytes must not become lines of their own.
    for (const char line_end : {'\n', '\r'}) std::replace(event.data.begin(), event.data.end(), line_end, ' ');
  }
  if (is_event_name(event.name)) exchange_->write("event: " + event.name + "\n");
  exchange_->write(net::sse_event(event.data));
  return std::nullopt;
}

std::optional<Error> Forward::pass_events(size_t instance, net::EventReader& reader) {
  while (!ended_) {
    std::optional<net::Event> event = reader.next();
    if (!event) break;
    if (auto error = pass_event(instance, std::move(*event))) return error;
  }
  return std::nullopt;
}

asio::awaitable<Outcome> Forward::relay_stream(size_t instance) {
  const size_t upstream = core_.dispatcher.instances()[instance].upstream;
  const Time first_byte_due = core_.now() + core_.upstreams[upstream].config.timeouts.first_byte;
  net::EventReader reader(kAnswerBytes);
  std::optional<Error> error;
  while (!ended_ && !error) {
    co_await hold_back();
    Result<std::string> bytes = co_await call_->read();
    if (!bytes) {
      error = std::move(bytes.error());
    } else if (bytes->empty()) {
      error = Error{ErrorKind::network, "upstream_disconnected", "the upstream ended without an end", ""};
    } else if (!reader.add(*bytes)) {
      error = Error{ErrorKind::network, net::kAnswerTooLarge, "an event of the upstream is larger than 1 MiB", ""};
    } else {
      error = pass_events(instance, reader);
    }
    // Comments keep a connection alive, not a request.
    if (!error && !begun_ && core_.now() > first_byte_due) {
      error = Error{ErrorKind::network, "upstream_timeout", "the upstream did not answer in time", ""};
    }
  }
  if (error && !begun_) co_return failed(instance, std::move(*error));
  core_.metrics.attempt(upstream, left_ ? "abandoned" : error ? "cut" : "answered");
  if (error) {
    call_->cancel();
    judge(instance, *error);
    exchange_->write(net::sse_event(cut_event(*error)));
  } else {
    learn_from_arrivals(instance);
    exchange_->end(false);
    // What follows the end of the stream is the connection's, so that it can serve again: the client need not wait.
    [[maybe_unused]] const Result<std::string> rest = co_await call_->read();
  }
  if (error) exchange_->end(true);
  co_return Outcome{true, {}};
}

std::optional<size_t> find_model(const Core& core, const std::string& name) {
  const auto at = std::find(core.models.begin(), core.models.end(), name);
  if (at != core.models.end()) return at - core.models.begin();
  if (name == "default") return 0;  // where none is called so: the first
  return std::nullopt;
}

void begin(Core& core, std::shared_ptr<net::Exchange> exchange, Result<RequestFacts> facts) {
  if (!facts) return exchange->reply(server::error_response(facts.error()));
  const std::optional<size_t> model = find_model(core, facts->model);
  if (!model) {
    Error error{ErrorKind::request, "model_not_found", "there is no such model; /v1/models lists them", "model"};
    return exchange->reply(server::error_response(error));
  }
  std::make_shared<Forward>(core, std::move(exchange), std::move(*facts), *model)->start();
}

}  // namespace

void forward(Core& core, std::shared_ptr<net::Exchange> exchange) {
  const std::string& body = exchange->request().body;
  if (body.size() <= kInlineBody) return begin(core, exchange, inspect_request(body));
  core.http->work([&core, exchange] {
    auto facts = std::make_shared<Result<RequestFacts>>(inspect_request(exchange->request().body));
    core.http->post([&core, exchange, facts] { begin(core, exchange, std::move(*facts)); });
  });
}

}  // namespace martlet::gateway
