#include "gateway/forward.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/out_of_memory.h"
#include "gateway/answer.h"
#include "gateway/attempt.h"
#include "gateway/on_worker.h"
#include "gateway/signal.h"
#include "gateway/spawn.h"
#include "net/sse.h"
#include "server/error_response.h"

namespace martlet::gateway {

// As in net/http_connection.cpp: every co_await stands alone in its statement (g++ 12).

namespace asio = boost::asio;

namespace {

constexpr size_t kInlineBody = 64u << 10;  // larger ones are parsed on a worker

// What should have answered was lost: the client hears it, in an event where its answer has begun.
void tell_of_loss(net::Exchange& exchange, const Error& error) {
  insist([&] { exchange.reply(server::error_response(error)); });
  insist([&] { exchange.write(net::sse_event(cut_event(error))); });
  exchange.end(true);
}

class Forward final : public Unanswered, public std::enable_shared_from_this<Forward> {
 public:
  Forward(Core& core, std::shared_ptr<net::Exchange> exchange, RequestFacts facts, size_t model)
      : core_(core), incoming_(core, std::move(exchange), std::move(facts), model) {
    wish_.model = model;
    wish_.prefix = incoming_.facts.prefix;
    incoming_.has_speaker = [this] { cancel_others(); };
    core_.unanswered.insert(this);
  }
  Forward(const Forward&) = delete;
  ~Forward() { core_.unanswered.erase(this); }

  void start() {
    incoming_.exchange->on_close([self = shared_from_this()] { self->leave(); });
    incoming_.exchange->on_taken([self = shared_from_this()] { self->incoming_.taken.notify(); });
    spawn(
        *core_.io, [self = shared_from_this()] { return self->run(); },
        [self = shared_from_this()](const Error& error) { self->fail(error); });
  }

 private:
  asio::awaitable<void> run();
  asio::awaitable<Result<Granted>> acquire();
  asio::awaitable<void> race(Granted granted);
  asio::awaitable<void> run_beside(std::shared_ptr<Attempt> attempt);
  void plan_tokens();
  // `patience`: how long it may be silent before another is asked beside it; 0: for ever.
  std::shared_ptr<Attempt> begin(Granted granted, Duration patience);
  void launch(Granted granted, Duration patience);
  // One that has ended.
  void take(const Attempt& attempt, Outcome outcome);
  void lose(const Attempt& attempt, const Error& error);
  std::optional<Granted> take_free();
  void cancel_others();
  void leave();
  void fail(const Error& error) override;

  Core& core_;
  Incoming incoming_;
  Wish wish_;
  Signal wake_;  // of run()
  std::vector<std::shared_ptr<Attempt>> attempts_;
  Outcome outcome_;        // of all attempts so far
  bool was_kept_ = false;  // the connection of the one that it is of
};

void Forward::plan_tokens() {
  const auto same = [&](const Upstream& u) { return u.config.serves == core_.models[wish_.model]; };
  const auto upstream = std::find_if(core_.upstreams.begin(), core_.upstreams.end(), same);
  wish_.tokens = upstream->estimate.tokens(incoming_.facts.prompt_bytes) + incoming_.facts.answer_tokens;
  const Time now = core_.now();
  wish_.without_drafts = std::any_of(core_.upstreams.begin(), core_.upstreams.end(), [&](const Upstream& u) {
    return same(u) && u.config.drafts && !u.drafts.drafts(now);
  });
}

void Forward::leave() {
  incoming_.left = true;
  wake_.notify();
  incoming_.taken.notify();
  for (const auto& attempt : attempts_) attempt->cancel();
}

void Forward::fail(const Error& error) {
  tell_of_loss(*incoming_.exchange, error);
  leave();
}

void Forward::cancel_others() {
  for (const auto& attempt : attempts_) {
    if (incoming_.tries.outrun(attempt->id())) attempt->cancel();
  }
}

// A place in the queue, for as long as somebody stands there.
struct Waiting {
  Dispatcher& dispatcher;
  Dispatcher::Ticket ticket;
  ~Waiting() { dispatcher.withdraw(ticket); }
};

asio::awaitable<Result<Granted>> Forward::acquire() {
  std::optional<Result<Granted>> granted;
  const Time since = core_.now();
  const auto take = [&](Result<size_t> instance) {
    if (instance) granted.emplace(Granted(core_, *instance));
    if (!instance) granted.emplace(std::move(instance.error()));
    wake_.notify();
  };
  const Waiting waiting{core_.dispatcher, core_.dispatcher.request(wish_, since, take)};
  while (!granted && !incoming_.left) co_await wake_.wait(*core_.io);
  core_.metrics.queued(core_.now() - since);
  if (!granted) co_return Error{ErrorKind::unavailable, "cancelled", "the client has left", ""};
  co_return std::move(*granted);
}

// An instance that is free now; none is waited for.
std::optional<Granted> Forward::take_free() {
  std::optional<Granted> granted;
  const auto take = [&](Result<size_t> instance) {
    if (instance) granted.emplace(core_, *instance);
  };
  const Waiting waiting{core_.dispatcher, core_.dispatcher.request(wish_, core_.now(), take)};
  return granted;
}

std::shared_ptr<Attempt> Forward::begin(Granted granted, Duration patience) {
  wish_.tried.push_back(granted.instance());
  attempts_.reserve(attempts_.size() + 1);  // one that began is in the list
  return attempts_.emplace_back(std::make_shared<Attempt>(incoming_, std::move(granted), patience));
}

// An answer comes before an upstream's refusal, that before a failure, of which the last counts. That an upstream
// cannot be asked is the client's to know only where nothing else went wrong: what failed may go well the next time.
void Forward::take(const Attempt& attempt, Outcome outcome) {
  incoming_.tries.ended(attempt.id());
  const bool refused = outcome.error.kind == ErrorKind::request;
  const auto& instances = core_.dispatcher.instances();
  for (size_t i = 0; refused && i < instances.size(); ++i) {
    if (instances[i].upstream == attempt.upstream()) wish_.tried.push_back(i);
  }
  if (outcome_.answered || (outcome_.refusal && !outcome.answered)) return;
  if (refused && !outcome_.error.code.empty()) return;
  outcome_ = std::move(outcome);
  was_kept_ = attempt.was_kept();
}

asio::awaitable<void> Forward::run_beside(std::shared_ptr<Attempt> attempt) {
  Outcome outcome = co_await attempt->run();
  take(*attempt, std::move(outcome));
  wake_.notify();
}

void Forward::launch(Granted granted, Duration patience) {
  const std::shared_ptr<Attempt> attempt = begin(std::move(granted), patience);
  spawn(
      *core_.io, [self = shared_from_this(), attempt] { return self->run_beside(attempt); },
      [self = shared_from_this(), attempt](const Error& error) { self->lose(*attempt, error); });
}

// The other one may still answer, unless this one was to.
void Forward::lose(const Attempt& attempt, const Error& error) {
  Tries& tries = incoming_.tries;
  tries.ended(attempt.id());
  const bool last = tries.running() == 0 || tries.speaker() == attempt.id();
  if (last && !outcome_.answered) return fail(error);
  wake_.notify();
}

// One attempt; a second beside it when the first keeps the client waiting for longer than its upstream may.
asio::awaitable<void> Forward::race(Granted granted) {
  Tries& tries = incoming_.tries;
  const size_t upstream = core_.dispatcher.instances()[granted.instance()].upstream;
  const Duration patience = core_.upstreams[upstream].config.hedge_after;
  if (patience == Duration{} || tries.begun() > 0) {
    const std::shared_ptr<Attempt> attempt = begin(std::move(granted), Duration{});
    Outcome outcome = co_await attempt->run();
    take(*attempt, std::move(outcome));
    co_return;
  }
  launch(std::move(granted), patience);
  while (tries.running() > 0) {
    if (tries.hedges(core_.now())) {
      std::optional<Granted> other;
      if (!incoming_.left) other = take_free();
      if (other) if_memory_allows([&] { launch(std::move(*other), Duration{}); });
      continue;
    }
    co_await wake_.wait(*core_.io, tries.due().value_or(Time::max()));
  }
}

asio::awaitable<void> Forward::run() {
  plan_tokens();
  while (incoming_.tries.more() && !outcome_.answered && !outcome_.refusal) {
    Result<Granted> granted = co_await acquire();
    // The peer may just have been closing a connection that was kept: where there is nobody else, that is no verdict.
    if (!granted && outcome_.error.code == "upstream_disconnected" && std::exchange(was_kept_, false)) {
      wish_.tried.clear();
      granted = co_await acquire();
    }
    if (!granted) {
      if (attempts_.empty()) outcome_.error = granted.error();
      break;
    }
    if (!attempts_.empty()) core_.metrics.failover(attempts_.back()->upstream());
    co_await race(std::move(*granted));
  }
  if (outcome_.answered || incoming_.left) co_return;
  net::HttpResponse response = outcome_.refusal ? std::move(*outcome_.refusal)
                                                : incoming_.named(upstream_error_response(outcome_.error), nullptr);
  incoming_.exchange->reply(std::move(response));
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

asio::awaitable<void> inspect_beside(Core& core, std::shared_ptr<net::Exchange> exchange) {
  auto inspect = [exchange] { return inspect_request(exchange->request().body); };
  Result<RequestFacts> facts = co_await on_worker(core, std::move(inspect));
  begin(core, exchange, std::move(facts));
}

}  // namespace

void forward(Core& core, std::shared_ptr<net::Exchange> exchange) {
  const std::string& body = exchange->request().body;
  if (body.size() <= kInlineBody) return begin(core, exchange, inspect_request(body));
  spawn(
      *core.io, [&core, exchange] { return inspect_beside(core, exchange); },
      [exchange](const Error& error) { tell_of_loss(*exchange, error); });
}

}  // namespace martlet::gateway
