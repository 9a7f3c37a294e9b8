#include "server/completion.h"

#include <utility>

#include <fmt/format.h>

#include "base/out_of_memory.h"
#include "net/sse.h"
#include "server/error_response.h"

namespace martlet::server {
namespace {

int64_t unix_time() {
  return std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
}

}  // namespace

// What the engine holds: hands tokens over and never waits.
class Completion::Sink final : public RequestSink {
 public:
  Sink(std::shared_ptr<Completion> completion, size_t choice) : completion_(std::move(completion)), choice_(choice) {}
  void on_tokens(std::span<const Emitted> tokens) override {
    completion_->deliver({choice_, {tokens.begin(), tokens.end()}, std::nullopt});
  }
  void on_finish(const Finish& finish) override { completion_->deliver({choice_, {}, finish}); }

 private:
  std::shared_ptr<Completion> completion_;
  size_t choice_;
};

Completion::Completion(Setup setup, ApiRequest request, std::vector<std::vector<Token>> prompts)
    : setup_(std::move(setup)), request_(std::move(request)), prompts_(std::move(prompts)) {
  const bool chat = setup_.endpoint == Endpoint::chat;
  format_ = answer_format(setup_.endpoint, setup_.model->tokenizer);
  header_ = {fmt::format("{}-{}", chat ? "chatcmpl" : "cmpl", setup_.exchange->request().id), unix_time(),
             setup_.model->name, request_.logprobs, request_.stream && request_.include_usage};
  for (size_t i = 0; i < prompts_.size() * request_.n; ++i) {
    choices_.push_back({ChoiceText(setup_.model->tokenizer, request_.stop, chat || request_.echo, request_.logprobs)});
    choices_.back().echoes = request_.echo;
  }
  ids_.reserve(choices_.size());
}

void Completion::start(Setup setup, ApiRequest request, std::vector<std::vector<Token>> prompts) {
  auto self = std::make_shared<Completion>(std::move(setup), std::move(request), std::move(prompts));
  Status status;
  try {
    status = self->submit();
  } catch (const std::bad_alloc&) {
    insist([&] { self->let_go(); });
    throw;
  }
  if (!status) {
    self->let_go();
    self->setup_.exchange->reply(error_response(status.error()));
    return;
  }
  self->later(&Completion::begin);
}

// Runs a turn on the I/O thread.
void Completion::later(void (Completion::*turn)()) {
  insist([&] { setup_.post([self = shared_from_this(), turn] { self->guarded(turn); }); });
}

// A turn that finds no memory ends this request: nobody else is concerned.
void Completion::guarded(void (Completion::*turn)()) {
  try {
    (this->*turn)();
  } catch (const std::bad_alloc&) {
    insist([this] { fail(out_of_memory()); });
  }
}

Status Completion::submit() {
  for (size_t i = 0; i < choices_.size(); ++i) {
    MARTLET_ASSIGN(const RequestId id,
                   setup_.model->engine->submit(engine_request(i), std::make_shared<Sink>(shared_from_this(), i)));
    ids_.push_back(id);
  }
  return {};
}

Request Completion::engine_request(size_t choice) const {
  Request out;
  out.prompt = prompts_[choice / request_.n];
  out.sampling = request_.sampling;
  if (out.sampling.seed) *out.sampling.seed += choice % request_.n;
  if (request_.max_tokens) out.max_tokens = *request_.max_tokens;
  out.stop_tokens = request_.stop_tokens;
  if (!request_.ignore_eos) {
    const auto ends = setup_.model->tokenizer->stop_tokens();
    out.stop_tokens.insert(out.stop_tokens.end(), ends.begin(), ends.end());
  }
  if (request_.logprobs) out.top_logprobs = request_.top_logprobs.value_or(0);
  out.prompt_logprobs = scores_prompt();
  out.tenant = setup_.tenant;
  out.priority = request_.priority;
  out.speculation = request_.speculation;
  return out;
}

void Completion::deliver(Event event) {
  bool was_empty;
  {
    std::lock_guard lock(mutex_);
    was_empty = mailbox_.empty();
    mailbox_.push_back(std::move(event));
  }
  if (was_empty) later(&Completion::take_mail);
}

void Completion::begin() {
  begun_ = true;  // whatever happens here: take_mail() is to come for what there will be
  setup_.exchange->on_close([weak = weak_from_this()] {
    if (auto self = weak.lock(); self && !self->over_) self->cancel_all(), self->over("client_left");
  });
  if (request_.stream && !over_) {
    setup_.exchange->begin_stream(net::sse_head(), std::string(net::kSseComment));
    for (size_t i = 0; i < choices_.size(); ++i) {
      const std::string opening = format_->opening(header_, static_cast<int>(i));
      if (!opening.empty()) setup_.exchange->write(net::sse_event(opening));
    }
  }
  take_mail();
}

void Completion::take_mail() {
  if (!begun_) return;  // begin() comes for what is there by then
  std::vector<Event> events;
  {
    std::lock_guard lock(mutex_);
    events.swap(mailbox_);
  }
  for (Event& event : events) handle(event);
}

void Completion::handle(Event& event) {
  Choice& choice = choices_[event.choice];
  if (event.finish) choice.ended = true, choice.finish = *event.finish;
  if (over_) return;
  Delta delta;
  add_tokens(event.choice, event.tokens, delta);
  if (event.finish && !choice.reason) {
    if (event.finish->error) return fail(*event.finish->error);
    if (event.finish->reason == FinishReason::cancelled) {
      return fail({ErrorKind::unavailable, "shutting_down", "the server is shutting down", ""});
    }
    choice.reason = event.finish->reason == FinishReason::stop ? "stop" : "length";
    end_choice(event.choice, delta);
    emit(event.choice, std::move(delta), true);
  } else if (!event.tokens.empty()) {
    const bool stopped = choice.text.stopped() && !choice.reason;
    if (stopped) {
      choice.reason = "stop";
      setup_.model->engine->cancel(ids_[event.choice]);
    }
    if (stopped || !delta.empty()) emit(event.choice, std::move(delta), stopped);
  }
  for (const Choice& each : choices_) {
    if (!each.ended) return;
  }
  complete();
}

// The echoed prompt comes before the first token: with scores as the engine reports them, otherwise at once.
void Completion::begin_echo(size_t index, Delta& out) {
  Choice& choice = choices_[index];
  if (!std::exchange(choice.echoes, false)) return;
  const std::vector<Token>& prompt = prompts_[index / request_.n];
  const size_t here = scores_prompt() ? std::min<size_t>(prompt.size(), 1) : prompt.size();
  for (size_t i = 0; i < here; ++i) choice.text.push_prompt(prompt[i], std::nullopt, {}, out);
}

void Completion::add_tokens(size_t index, const std::vector<Emitted>& tokens, Delta& out) {
  if (!tokens.empty()) begin_echo(index, out);
  Choice& choice = choices_[index];
  for (const Emitted& emitted : tokens) {
    if (emitted.prompt) {
      choice.text.push_prompt(emitted.token, emitted.logprob, emitted.top, out);
      continue;
    }
    const Clock::time_point now = Clock::now();
    if (choice.text.output_tokens() == 0) {
      choice.first = now;
    } else {
      setup_.metrics->next_token(now - choice.last);
    }
    choice.last = now;
    choice.text.push(emitted, out);
  }
}

void Completion::end_choice(size_t index, Delta& out) {
  begin_echo(index, out);
  Choice& choice = choices_[index];
  choice.text.finish(out);
  if (choice.text.stopped()) choice.reason = "stop";
}

void Completion::emit(size_t index, Delta delta, bool last) {
  Choice& choice = choices_[index];
  if (last) observe(choice);
  if (!request_.stream) {
    choice.kept.text += delta.text;
    std::move(delta.tokens.begin(), delta.tokens.end(), std::back_inserter(choice.kept.tokens));
    return;
  }
  const int number = static_cast<int>(index);
  if (!delta.empty()) {
    setup_.exchange->write(net::sse_event(format_->chunk(header_, number, delta, nullptr)));
  }
  if (last) setup_.exchange->write(net::sse_event(format_->chunk(header_, number, {}, choice.reason)));
}

void Completion::fail(const Error& error) {
  over(error.code);
  let_go();
  const bool streaming = setup_.exchange->status() != 0;
  if (!request_.stream || !streaming) return setup_.exchange->reply(error_response(error));
  setup_.exchange->write(net::sse_event(error_body(error)));
  setup_.exchange->end(true);
}

// From here on nothing uses the model, nor does fail(): every choice has ended, there is nothing to cancel.
void Completion::complete() {
  over("complete");
  ids_.clear();
  setup_.model.reset();
  if (request_.stream) {
    if (request_.include_usage) setup_.exchange->write(net::sse_event(format_->usage_chunk(header_, usage())));
    setup_.exchange->write(net::kSseDone);
    return setup_.exchange->end();
  }
  std::vector<AnswerFormat::Choice> list;
  for (Choice& choice : choices_) list.push_back({std::move(choice.kept), choice.reason});
  net::HttpResponse response;
  response.body = format_->whole(header_, list, usage());
  setup_.exchange->reply(std::move(response));
}

void Completion::cancel_all() {
  for (const RequestId id : ids_) setup_.model->engine->cancel(id);
  ids_.clear();
}

void Completion::let_go() {
  cancel_all();
  setup_.model.reset();
}

// A prompt counts once however many choices it has; a choice's tokens count up to where its text was cut.
AnswerUsage Completion::usage() const {
  AnswerUsage out;
  for (size_t i = 0; i < choices_.size(); ++i) {
    out.output_tokens += choices_[i].text.output_tokens();
    out.drafts += choices_[i].finish.usage.drafts;
    if (i % request_.n != 0) continue;
    out.prompt_tokens += static_cast<int64_t>(prompts_[i / request_.n].size());
    out.cached_tokens += choices_[i].finish.usage.cached_tokens;
    if (i == 0) out.miss = choices_[i].finish.usage.miss;
  }
  return out;
}

// Once: what is tried again, or fails after it was complete, is told in one line of the log.
void Completion::over(std::string_view outcome) {
  if (std::exchange(over_, true) || !setup_.log) return;
  const AnswerUsage used = usage();
  const Choice& choice = choices_.front();
  const auto since = [&](Clock::time_point to) {
    return std::max(std::chrono::duration<double>(to - setup_.arrived).count(), 0.0);
  };
  if_memory_allows([&] {
    setup_.log->completion({setup_.exchange->request().id, header_.model, outcome, used.prompt_tokens,
                            used.cached_tokens, used.output_tokens, choice.finish.usage.queued_seconds,
                            since(choice.first), since(Clock::now())});
  });
}

void Completion::observe(const Choice& choice) {
  const int32_t tokens = choice.text.output_tokens();
  if (tokens > 0) setup_.metrics->first_token(choice.first - setup_.arrived);
  if (tokens > 1) setup_.metrics->output_token((choice.last - choice.first) / (tokens - 1));
}

}  // namespace martlet::server
