#include "gateway/attempt.h"

#include <algorithm>

#include <boost/json/serialize.hpp>

#include "gateway/answer.h"
#include "gateway/on_worker.h"
#include "net/sse.h"

namespace martlet::gateway {

// As in net/http_connection.cpp: every co_await stands alone in its statement (g++ 12).

namespace asio = boost::asio;

namespace {

constexpr size_t kWaiting = 64u << 10;     // bytes for the client beyond which the upstream is not read
constexpr size_t kAnswerBytes = 1u << 20;  // of an answer that is checked as a whole, and of one event

// What servers call their events; anything else is not passed on.
bool is_event_name(const std::string& name) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  return !name.empty() && name.size() <= 64 && name.find_first_not_of(kAllowed) == name.npos;
}

struct Release {
  Granted& granted;
  ~Release() { granted.release(); }
};

Error network_error(const char* code, const char* text) {
  return {ErrorKind::network, code, text, ""};
}

}  // namespace

Incoming::Incoming(Core& core, std::shared_ptr<net::Exchange> from, RequestFacts read, size_t model)
    : core(core),
      exchange(std::move(from)),
      facts(std::move(read)),
      model(model),
      trace(trace_of(exchange->request())),
      body(std::move(exchange->request().body)) {}

net::HttpResponse Incoming::named(net::HttpResponse response, const Upstream* upstream) const {
  response.fields.push_back({"x-request-id", trace.request_id});
  if (upstream) response.fields.push_back({"x-martlet-upstream", upstream->config.name});
  return response;
}

Granted::Granted(Core& core, size_t instance) : core_(&core), instance_(instance), era_(breaker().era()) {}

void Granted::swap(Granted& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(instance_, other.instance_);
  std::swap(era_, other.era_);
  std::swap(judged_, other.judged_);
}

void Granted::succeeded() {
  judged_ = true;
  breaker().succeeded(era_);
}

void Granted::failed(bool dead) {
  judged_ = true;
  breaker().failed(era_, dead, core_->now());
}

void Granted::abandoned() {
  judged_ = true;
  breaker().abandoned(era_);
}

void Granted::release() {
  if (!core_) return;
  if (!judged_) abandoned();
  Core& core = *std::exchange(core_, nullptr);
  core.dispatcher.release(instance_);
  core.settle();
}

Attempt::Attempt(Incoming& incoming, Granted granted, Duration patience)
    : incoming_(incoming),
      core_(incoming.core),
      granted_(std::move(granted)),
      id_(incoming.tries.began(core_.now(), patience)),
      upstream_index_(core_.dispatcher.instances()[granted_.instance()].upstream),
      upstream_(core_.upstreams[upstream_index_]) {}

asio::awaitable<Outcome> Attempt::run() {
  const Release release{granted_};
  if (incoming_.left || outrun()) co_return failed({});
  const std::shared_ptr<net::HttpPeer> peer = core_.peers[granted_.instance()];
  if (!peer) co_return failed(network_error("upstream_unreachable", "the upstream is not there"));
  const UpstreamTimeouts& timeouts = upstream_.config.timeouts;
  call_ = std::make_shared<net::HttpCall>(
      *core_.io, peer, net::HttpCallTimeouts{timeouts.connect, timeouts.first_byte, timeouts.between});
  drafting_ = upstream_.config.drafts && upstream_.drafts.drafts(core_.now());
  std::string body;
  if (upstream_.text) {
    Result<std::string> ids = co_await tokenized();
    if (incoming_.left || outrun()) co_return failed({});
    if (!ids) co_return refused(std::move(ids.error()));
    body = std::move(*ids);
    if (is_chat()) shape_.emplace();
  }
  net::HttpCallRequest request = request_for(body);
  Result<net::HttpAnswerHead> head = co_await call_->send(std::move(request));
  body = {};
  if (!head) co_return failed(std::move(head.error()));
  const Verdict verdict = verdict_of(head->status);
  Outcome outcome;
  if (verdict == Verdict::answer || verdict == Verdict::pass_on) {
    outcome = co_await relay(verdict, *head);
  } else {
    outcome = failed(verdict_error(verdict, head->status));
  }
  if (!outcome.answered) call_->cancel();
  co_return outcome;
}

asio::awaitable<Outcome> Attempt::relay(Verdict verdict, const net::HttpAnswerHead& head) {
  if (verdict == Verdict::pass_on) return relay_refusal(head);
  const bool events = incoming_.facts.stream && head.field("content-type").starts_with("text/event-stream");
  return events ? relay_stream() : relay_whole(head.status);
}

net::HttpCallRequest Attempt::request_for(std::string& body) const {
  const UpstreamConfig& config = upstream_.config;
  const std::string& asked = body.empty() ? incoming_.body : body;
  body = with_member(asked, "model", boost::json::serialize(boost::json::value(config.model)));
  if (!config.drafts_off_field.empty() && !drafting_) {
    body = with_member(body, config.drafts_off_field, config.drafts_off_json);
  }
  const net::HttpRequest& from = incoming_.exchange->request();
  const Trace& trace = incoming_.trace;
  net::HttpCallRequest out;
  out.method = "POST";
  out.target = config.base + (shape_ ? "/v1/completions" : from.path);
  out.body = body;
  // A list of its own, not the client's less some: no key, cookie or hop-by-hop field can slip through.
  const auto add = [&](const char* name, std::string value) { out.fields.push_back({name, std::move(value)}); };
  out.fields.reserve(7);
  add("content-type", "application/json");
  add("accept", incoming_.facts.stream ? "text/event-stream" : "application/json");
  add("x-request-id", trace.request_id);
  add("traceparent", trace.traceparent);
  add("via", (from.has("via") ? std::string(from.field("via")) + ", " : "") + "1.1 " + core_.id);
  if (!trace.tracestate.empty()) add("tracestate", trace.tracestate);
  if (!config.api_key.empty()) add("authorization", "Bearer " + config.api_key);
  return out;
}

bool Attempt::is_chat() const {
  return incoming_.exchange->request().path == "/v1/chat/completions";
}

asio::awaitable<Result<std::string>> Attempt::tokenized() const {
  const auto body = std::make_shared<const std::string>(incoming_.body);
  auto make = [text = upstream_.text, body, chat = is_chat(), context = upstream_.config.context] {
    return token_request(*text, *body, chat, context);
  };
  Result<std::string> made = co_await on_worker(core_, std::move(make));
  co_return made;
}

bool Attempt::shows_key(std::string_view text) const {
  const std::string& key = upstream_.config.api_key;
  return !key.empty() && text.find(key) != text.npos;
}

// What the client called the model.
std::string Attempt::model_json() const {
  return boost::json::serialize(boost::json::value(core_.models[incoming_.model]));
}

// A failure before the answer's first byte.
Outcome Attempt::failed(Error error) {
  judge(error);
  if (incoming_.left || outrun()) {
    core_.metrics.attempt(upstream_index_, incoming_.left ? "abandoned" : "outrun");
    return {incoming_.left, {}, std::nullopt};
  }
  core_.note_failure(upstream_index_, error);
  core_.metrics.attempt(upstream_index_, says_nothing_of_health(error) ? "refused" : "failed");
  return {false, std::move(error), std::nullopt};
}

// That a request cannot become token ids is a property of this upstream: one that gets text may do what was asked for.
Outcome Attempt::refused(Error error) {
  granted_.abandoned();
  incoming_.tries.refused();
  core_.metrics.attempt(upstream_index_, "refused");
  return {false, std::move(error), std::nullopt};
}

// What the failure of a request says of its instance.
void Attempt::judge(const Error& error) {
  if (incoming_.left || outrun() || says_nothing_of_health(error)) return granted_.abandoned();
  const Breaker& breaker = core_.dispatcher.instances()[granted_.instance()].breaker;
  const bool was_up = breaker.state() != Breaker::State::open;
  granted_.failed(error.code == "upstream_unreachable");
  if (was_up && breaker.state() == Breaker::State::open) core_.note(upstream_index_, {"down: ", error.text});
}

void Attempt::spoke() {
  granted_.succeeded();
  core_.settle();
  upstream_.noted.clear();
  core_.metrics.first_byte(upstream_index_, core_.now() - incoming_.arrived);
  incoming_.has_speaker();
}

void Attempt::learn(const AnswerFacts& facts) {
  upstream_.estimate.learn(incoming_.facts.prompt_bytes, facts.prompt_tokens);
  if (facts.drafted == 0) return;
  reported_ = true;
  upstream_.answers_count_drafts = true;
  upstream_.drafts.saw(facts.drafted, facts.accepted, core_.now());
  show_drafts();
}

// What a whole stream tells of drafts by its pace, which is not that of a slow client.
void Attempt::learn_from_arrivals() {
  if (!upstream_.config.drafts || held_back_) return;
  const Time now = core_.now();
  if (drafting_ && !reported_ && !core_.metrics_count_drafts[granted_.instance()]) {
    const DraftEstimate::Counts counts = arrivals_.counts(upstream_.config.draft_length);
    upstream_.drafts.saw(counts.drafted, counts.accepted, now);
  }
  if (const double rate = arrivals_.tokens_per_second(); rate > 0) upstream_.draft_rates.saw(drafting_, rate);
  if (upstream_.draft_rates.found_slower()) upstream_.drafts.switch_off(now);
  show_drafts();
}

void Attempt::show_drafts() {
  const DraftRule& drafts = upstream_.drafts;
  core_.metrics.acceptance(upstream_index_, drafts.acceptance(), drafts.drafts(core_.now()));
}

// An answer to the client's own mistake: any other upstream would give it too. One that is being asked already may
// know better (its context may be larger), so it is waited for.
asio::awaitable<Outcome> Attempt::relay_refusal(const net::HttpAnswerHead& head) {
  Result<std::string> text = co_await call_->read_all(kAnswerBytes);
  if (!text || incoming_.left || outrun()) co_return failed(text ? Error() : std::move(text.error()));
  AnswerFacts facts;
  inspect_answer(*text, facts);
  const Verdict verdict = verdict_of(head.status, facts.error_code);
  if (verdict != Verdict::pass_on) co_return failed(verdict_error(verdict, head.status));
  if (shows_key(*text)) facts.error = false;  // as if it had no words
  net::HttpResponse response = incoming_.named(refusal_response(head.status, *text, facts), &upstream_);
  if (incoming_.tries.running() > 1) {
    granted_.succeeded();
    core_.metrics.attempt(upstream_index_, "refused");
    co_return Outcome{false, {}, std::move(response)};
  }
  speaks();
  incoming_.exchange->reply(std::move(response));
  spoke();
  core_.metrics.attempt(upstream_index_, "answered");
  co_return Outcome{true, {}, std::nullopt};
}

asio::awaitable<Outcome> Attempt::relay_whole(int status) {
  Result<std::string> text = co_await call_->read_all(kAnswerBytes);
  if (!text) co_return failed(std::move(text.error()));
  AnswerFacts facts;
  if (!inspect_answer(*text, facts) || shows_key(*text)) {
    co_return failed(network_error("upstream_bad_answer", "the upstream's answer makes no sense"));
  }
  if (facts.error) co_return failed(network_error("upstream_error", "the upstream answered with an error"));
  if (shape_) {
    std::optional<std::string> chat = ChatShape::whole(*text);
    if (!chat) co_return failed(network_error("upstream_bad_answer", "the upstream's answer is no completion"));
    text = std::move(*chat);
  }
  if (!speaks()) co_return failed({});
  net::HttpResponse response;
  response.status = status;
  response.body = with_member_replaced(*text, "model", model_json());
  incoming_.exchange->reply(incoming_.named(std::move(response), &upstream_));
  // It is written: the client does not wait while we learn from it and clear up.
  spoke();
  learn(facts);
  core_.metrics.attempt(upstream_index_, "answered");
  co_return Outcome{true, {}, std::nullopt};
}

// Until the client has taken enough of what it has.
asio::awaitable<void> Attempt::hold_back() {
  while (incoming_.exchange->waiting() > kWaiting && !incoming_.left) {
    held_back_ = true;
    co_await incoming_.taken.wait(*core_.io);
  }
}

std::optional<Error> Attempt::pass_event(net::Event event) {
  AnswerFacts facts;
  const bool done = event.data == "[DONE]";
  if (!done && (!inspect_answer(event.data, facts) || shows_key(event.data))) {
    return network_error("upstream_bad_answer", "an event of the upstream makes no sense");
  }
  if (facts.error || event.name == "error") {
    return network_error("upstream_error", "the upstream ended with an error");
  }
  if (shape_ && !done) {
    std::optional<std::string> chat = shape_->event(event.data);
    if (!chat) return network_error("upstream_bad_answer", "an event of the upstream is no completion");
    event.data = std::move(*chat);
  }
  const bool first = !incoming_.tries.speaker();
  if (!speaks()) return network_error("cancelled", "another upstream was faster");
  learn(facts);
  net::Exchange& exchange = *incoming_.exchange;
  if (first) exchange.begin_stream(incoming_.named(net::sse_head(), &upstream_), std::string(net::kSseComment));
  ended_ = done;
  if (!done) {
    arrivals_.arrived(core_.now());
    event.data = with_member_replaced(event.data, "model", model_json());
    // Either ends a line to a client: an upstream's bytes must not become lines of their own.
    for (const char line_end : {'\n', '\r'}) std::replace(event.data.begin(), event.data.end(), line_end, ' ');
  }
  if (is_event_name(event.name)) exchange.write("event: " + event.name + "\n");
  exchange.write(net::sse_event(event.data));
  if (first) spoke();
  return std::nullopt;
}

std::optional<Error> Attempt::pass_events(net::EventReader& reader) {
  while (!ended_) {
    std::optional<net::Event> event = reader.next();
    if (!event) break;
    if (auto error = pass_event(std::move(*event))) return error;
  }
  return std::nullopt;
}

asio::awaitable<Outcome> Attempt::relay_stream() {
  const Time first_byte_due = core_.now() + upstream_.config.timeouts.first_byte;
  net::EventReader reader(kAnswerBytes);
  std::optional<Error> error;
  while (!ended_ && !error) {
    co_await hold_back();
    Result<std::string> bytes = co_await call_->read();
    if (!bytes) {
      error = std::move(bytes.error());
    } else if (bytes->empty()) {
      error = network_error("upstream_disconnected", "the upstream ended without an end");
    } else if (!reader.add(*bytes)) {
      error = network_error(net::kAnswerTooLarge, "an event of the upstream is larger than 1 MiB");
    } else {
      error = pass_events(reader);
    }
    // Comments keep a connection alive, not a request.
    if (!error && !incoming_.tries.speaker() && core_.now() > first_byte_due) {
      error = network_error("upstream_timeout", "the upstream did not answer in time");
    }
  }
  if (error && incoming_.tries.speaker() != id_) co_return failed(std::move(*error));
  core_.metrics.attempt(upstream_index_, incoming_.left ? "abandoned" : error ? "cut" : "answered");
  net::Exchange& exchange = *incoming_.exchange;
  if (error) {
    call_->cancel();
    judge(*error);
    if (!incoming_.left) core_.note_failure(upstream_index_, *error);
    exchange.write(net::sse_event(cut_event(*error)));
    exchange.end(true);
  } else {
    learn_from_arrivals();
    exchange.end(false);
    // What follows the end of the stream is the connection's, so that it can serve again: the client need not wait.
    [[maybe_unused]] const Result<std::string> rest = co_await call_->read();
  }
  co_return Outcome{true, {}, std::nullopt};
}

}  // namespace martlet::gateway
