#include "engine/scheduler.h"

#include <algorithm>

namespace martlet {
namespace {

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options), pool_(options.pages), tree_(pool_, options.page_tokens), seeds_(std::random_device{}()) {}

void Scheduler::submit(Submission&& submission) {
  auto sequence = std::make_unique<Sequence>(std::move(submission), options_.context, seeds_());
  if (sequence->remaining() <= 0 || (sequence->output_limit == 0 && !sequence->scoring()))
    finish(*sequence, FinishReason::length);
  else
    queue_.push_back(std::move(sequence));
}

void Scheduler::cancel(RequestId id) {
  const auto end = [&](auto& sequences) {
    std::erase_if(sequences, [&](Owned& sequence) {
      if (sequence->id != id) return false;
      finish(*sequence, FinishReason::cancelled);
      return true;
    });
  };
  end(queue_);
  end(running_);
}

void Scheduler::end_all(FinishReason reason, const Error* error) {
  for (Owned& sequence : running_) finish(*sequence, reason, error);
  for (Owned& sequence : queue_) finish(*sequence, reason, error);
  running_.clear();
  queue_.clear();
}

Step* Scheduler::next() {
  grow();
  admit();
  fill();
  return step_.rows() > 0 ? &step_ : nullptr;
}

int32_t Scheduler::pages_for(int32_t tokens) const {
  return (tokens + options_.page_tokens - 1) / options_.page_tokens;
}

bool Scheduler::take_page(Sequence& sequence) {
  if (pool_.free() == 0) tree_.evict();
  const std::optional<Page> page = pool_.allocate();
  if (page) sequence.pages.push_back(*page);
  return page.has_value();
}

// Gives every running sequence, oldest first, the pages of its next token. The victim is always the last, so those that
// were served before it stay.
void Scheduler::grow() {
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    while (i < running_.size() && static_cast<int32_t>(sequence.pages.size()) < pages_for(sequence.size()))
      if (!take_page(sequence)) preempt_youngest();
  }
}

void Scheduler::preempt_youngest() {
  Owned victim = std::move(running_.back());
  running_.pop_back();
  release_pages(*victim);
  queue_.push_front(std::move(victim));
}

void Scheduler::admit() {
  while (!queue_.empty() && static_cast<int32_t>(running_.size()) < options_.max_sequences && admit(*queue_.front())) {
    running_.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
}

bool Scheduler::admit(Sequence& sequence) {
  // The last token is always computed: its logits are what is wanted. Rows that score are too.
  const auto known = static_cast<size_t>(sequence.scoring() ? 0 : sequence.size() - 1);
  sequence.pages = tree_.adopt(sequence.scope, std::span(sequence.tokens).first(known));
  const auto adopted = static_cast<int32_t>(sequence.pages.size());
  const int32_t needed = pages_for(sequence.size()) - adopted;
  if (needed + static_cast<int32_t>(running_.size()) > pool_.free() + pool_.reclaimable()) {
    release_pages(sequence);
    return false;
  }
  for (int32_t i = 0; i < needed; ++i) take_page(sequence);
  sequence.computed = adopted * options_.page_tokens;
  sequence.published = adopted;
  if (!sequence.was_admitted) {
    sequence.was_admitted = true;
    sequence.admitted = Clock::now();
    sequence.usage.cached_tokens = sequence.computed;
    stats_.prompt_tokens += static_cast<uint64_t>(sequence.prompt_size);
    stats_.cached_tokens += static_cast<uint64_t>(sequence.computed);
  }
  return true;
}

// Decode rows first, so that no running stream waits for another's prompt; then prompts, oldest first.
void Scheduler::fill() {
  step_.clear();
  for (Owned& sequence : running_)
    if (sequence->remaining() == 1) step_.add(*sequence, 1);
  int32_t budget = std::min(options_.prefill_chunk, options_.max_rows - step_.rows());
  for (Owned& sequence : running_) {
    if (sequence->remaining() <= 1) continue;
    const int32_t rows = std::min(sequence->remaining(), budget);
    if (rows <= 0) break;
    step_.add(*sequence, rows);
    budget -= rows;
  }
  step_.seal();
}

void Scheduler::commit(Step& step, const Status& status) {
  ++stats_.steps;
  Answers answers{step.choices.data(), step.chosen.data(), step.top.data()};
  for (const Step::Entry& entry : step.entries()) {
    if (status)
      accept(entry, answers);
    else
      finish(*entry.sequence, FinishReason::error, &status.error());
  }
  std::erase_if(running_, [](const Owned& sequence) { return sequence->finished; });
}

void Scheduler::accept(const Step::Entry& entry, Answers& answers) {
  Sequence& sequence = *entry.sequence;
  sequence.computed += entry.rows;
  emitted_.clear();
  Status status;
  for (int32_t i = 0; i < entry.outputs; ++i) {
    if (status) status = accept_one(sequence, answers, emitted_);
    answers.top += std::max(answers.choice->top, 0);
    ++answers.choice;
    ++answers.chosen;
  }
  if (!emitted_.empty()) sequence.sink->on_tokens(emitted_);
  if (!status) return finish(sequence, FinishReason::error, &status.error());
  // Not before a row's logits were seen to be sound: a page that made them NaN must reach nobody else.
  if (entry.last_row_output) publish(sequence);
  if (const auto reason = outcome(sequence, emitted_)) finish(sequence, *reason);
}

Status Scheduler::accept_one(Sequence& sequence, const Answers& answers, std::vector<Emitted>& emitted) {
  const Chosen& chosen = *answers.chosen;
  if (chosen.numeric_error)
    return Error{ErrorKind::internal, "numeric_error", "the model computed values that are not numbers", ""};
  if (chosen.token < 0)
    return Error{ErrorKind::request, "no_token_left", "the biases leave no token to choose", "logit_bias"};
  Emitted& token = emitted.emplace_back();
  token.token = chosen.token;
  token.logprob = chosen.logprob;
  for (int32_t i = 0; i < answers.choice->top; ++i)
    if (answers.top[i].token >= 0) token.top.emplace_back(answers.top[i].token, answers.top[i].logprob);
  token.prompt = answers.choice->score >= 0;
  if (token.prompt) {
    ++sequence.next_score;
    return {};
  }
  const std::vector<Token>& stops = sequence.request.stop_tokens;
  token.stop = std::find(stops.begin(), stops.end(), token.token) != stops.end();
  if (sequence.usage.output_tokens++ == 0) sequence.first_token = Clock::now();
  ++stats_.output_tokens;
  sequence.tokens.push_back(token.token);
  sequence.sampler.add_output(token.token);
  return {};
}

std::optional<FinishReason> Scheduler::outcome(const Sequence& sequence, std::span<const Emitted> emitted) const {
  if (!emitted.empty() && emitted.back().stop) return FinishReason::stop;
  const bool scored_only = sequence.output_limit == 0 && sequence.remaining() == 0;
  if (scored_only || (sequence.output_limit > 0 && sequence.usage.output_tokens == sequence.output_limit))
    return FinishReason::length;
  return std::nullopt;
}

void Scheduler::publish(Sequence& sequence) {
  const int32_t full = sequence.computed / options_.page_tokens;
  if (full == sequence.published) return;
  tree_.publish(sequence.scope, sequence.tokens, std::span(sequence.pages).first(static_cast<size_t>(full)));
  sequence.published = full;
}

void Scheduler::release_pages(Sequence& sequence) {
  for (const Page page : sequence.pages) pool_.release(page);
  sequence.pages.clear();
  sequence.computed = sequence.published = 0;
}

void Scheduler::finish(Sequence& sequence, FinishReason reason, const Error* error) {
  release_pages(sequence);
  sequence.finished = true;
  ++stats_.requests_finished;
  Finish finish{reason, error ? std::optional(*error) : std::nullopt, sequence.usage};
  const Clock::time_point now = Clock::now();
  finish.usage.queued_seconds = seconds_between(sequence.submitted, sequence.was_admitted ? sequence.admitted : now);
  if (sequence.was_admitted) {
    const bool began = sequence.usage.output_tokens > 0;
    finish.usage.prefill_seconds = seconds_between(sequence.admitted, began ? sequence.first_token : now);
    if (began) finish.usage.decode_seconds = seconds_between(sequence.first_token, now);
  }
  sequence.sink->on_finish(finish);
}

EngineStats Scheduler::stats() const {
  EngineStats stats = stats_;
  stats.running = static_cast<int32_t>(running_.size());
  stats.queued = queued();
  stats.pages_total = pool_.total();
  stats.pages_used = pool_.used();
  stats.pages_cached = pool_.reclaimable();
  return stats;
}

}  // namespace martlet
