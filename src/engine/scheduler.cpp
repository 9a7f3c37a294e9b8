#include "engine/scheduler.h"

#include <algorithm>
#include <map>

namespace martlet {
namespace {

// Prompt tokens from which it pays to wait for another sequence that is computing them: fewer do not lengthen a step.
constexpr int32_t kWorthWaiting = 32;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Where there is no memory for it, `sequence` stays its owner's.
void insert_by_rank(std::vector<std::unique_ptr<Sequence>>& into, std::unique_ptr<Sequence>& sequence) {
  if (into.size() == into.capacity()) into.reserve(2 * into.size() + 16);
  const auto before = [](Clock::time_point rank, const auto& other) { return rank < other->rank; };
  into.insert(std::upper_bound(into.begin(), into.end(), sequence->rank, before), std::move(sequence));
}

int32_t common_prefix(std::span<const Token> a, std::span<const Token> b) {
  return static_cast<int32_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, Speculator* speculator)
    : options_(options),
      speculator_(speculator),
      pool_(options.pages),
      states_(options.states),
      tree_(pool_, options.page_tokens),
      seeds_(std::random_device{}()) {
  running_.reserve(static_cast<size_t>(options.max_sequences));  // what was admitted has its place
}

void Scheduler::submit(Submission&& submission) {
  const int32_t tenant = submission.request.tenant;
  const std::shared_ptr<RequestSink> sink = submission.sink;
  try {
    enqueue(std::move(submission));
  } catch (const std::bad_alloc&) {
    tell_end(tenant, *sink, {FinishReason::error, std::nullopt, {}}, &no_memory_);
  }
}

void Scheduler::enqueue(Submission&& submission) {
  // Without reuse every request has a scope of its own.
  const int64_t scope = options_.prefix_cache && options_.states == 0 ? submission.request.tenant
                                                                      : -1 - static_cast<int64_t>(submission.id);
  auto sequence = std::make_unique<Sequence>(std::move(submission), options_.context, seeds_(), scope);
  if (sequence->remaining() <= 0 || (sequence->output_limit == 0 && !sequence->scoring()))
    finish(*sequence, FinishReason::length);
  else
    insert_by_rank(queue_, sequence);
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

void Scheduler::starve() {
  if (!running_.empty() || queue_.empty()) return end_running(FinishReason::error, &no_memory_);
  finish(*queue_.front(), FinishReason::error, &no_memory_);
  queue_.erase(queue_.begin());
}

void Scheduler::end_running(FinishReason reason, const Error* error) {
  for (Owned& sequence : running_) finish(*sequence, reason, error);
  running_.clear();
}

void Scheduler::end_all(FinishReason reason, const Error* error) {
  end_running(reason, error);
  for (Owned& sequence : queue_) finish(*sequence, reason, error);
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
  if (pool_.free() == 0 && tree_.evict()) ++stats_.pages_evicted;
  sequence.pages.push_back(-1);  // before there is a page that could be lost
  const std::optional<Page> page = pool_.allocate();
  if (page)
    sequence.pages.back() = *page;
  else
    sequence.pages.pop_back();
  return page.has_value();
}

// Gives every running sequence, first in rank first, the pages of its next token. The victim is always the last, so
// those that were served before it stay.
void Scheduler::grow() {
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    while (i < running_.size() && static_cast<int32_t>(sequence.pages.size()) < pages_for(sequence.size()))
      if (!take_page(sequence)) preempt_last();
  }
}

void Scheduler::preempt_last() {
  Sequence& victim = *running_.back();
  publish(victim);  // what nobody needs more urgently is found again
  if (speculator_) speculator_->forget(victim);
  release_pages(victim);
  insert_by_rank(queue_, running_.back());
  running_.pop_back();
  ++stats_.preemptions;
}

void Scheduler::admit() {
  for (Owned& sequence : queue_) sequence->held = false;
  while (static_cast<int32_t>(running_.size()) < options_.max_sequences) {
    const auto next = next_in_line();
    if (next == queue_.end()) return;
    try {
      const Admission admission = admit(**next);
      if (admission == Admission::no_room) return;
      if (admission == Admission::waits) {
        (*next)->held = true;
        continue;
      }
      insert_by_rank(running_, *next);
    } catch (const std::bad_alloc&) {
      release_pages(**next);  // it stays in the queue, and is admitted anew
      throw;
    }
    queue_.erase(next);
  }
}

std::vector<Scheduler::Owned>::iterator Scheduler::next_in_line() {
  std::map<int32_t, int32_t> running;  // by tenant
  for (const Owned& sequence : running_) ++running[sequence->request.tenant];
  auto best = queue_.end();
  for (auto place = queue_.begin(); place != queue_.end(); ++place) {
    if ((*place)->held) continue;
    if (best == queue_.end() || running[(*place)->request.tenant] < running[(*best)->request.tenant]) best = place;
  }
  return best;
}

// Whether a running sequence is ahead on the same prompt: adopting its work is sooner than doing it again.
bool Scheduler::computed_by_another(const Sequence& sequence, int32_t adopted, int32_t known) const {
  const std::span<const Token> tokens = std::span(sequence.tokens).first(static_cast<size_t>(known));
  return std::any_of(running_.begin(), running_.end(), [&](const Owned& other) {
    return other->scope == sequence.scope && other->published < other->prompt_size &&
           common_prefix(tokens, other->tokens) >= adopted + kWorthWaiting;
  });
}

Scheduler::Admission Scheduler::admit(Sequence& sequence) {
  // The last token is always computed: its logits are what is wanted. Rows that score are too.
  const int32_t known = sequence.scoring() ? 0 : sequence.size() - 1;
  PrefixTree::Match match = tree_.adopt(sequence.scope, std::span(sequence.tokens).first(static_cast<size_t>(known)));
  sequence.pages = std::move(match.pages);
  const auto shared = static_cast<int32_t>(sequence.pages.size());
  sequence.computed = shared * options_.page_tokens + match.partial_tokens;
  if (match.partial_tokens > 0) sequence.copy = PageCopy{0, match.partial, -1, match.partial_tokens};
  if (computed_by_another(sequence, sequence.computed, known)) return release_pages(sequence), Admission::waits;
  const int32_t needed = pages_for(sequence.size()) - shared;
  const auto fits = [&] {
    return needed + static_cast<int32_t>(running_.size()) <= pool_.free() + pool_.reclaimable();
  };
  if (!fits()) {  // the page to copy from may be the one that is missing
    release_copy_source(sequence);
    sequence.computed = shared * options_.page_tokens;
  }
  if (!fits()) return release_pages(sequence), Admission::no_room;
  for (int32_t i = 0; i < needed; ++i) take_page(sequence);
  if (sequence.copy) sequence.copy->to = sequence.pages[static_cast<size_t>(shared)];
  sequence.sound = sequence.published = sequence.computed;
  if (!sequence.was_admitted) note_admission(sequence, known, match.evicted);
  return Admission::admitted;
}

void Scheduler::note_admission(Sequence& sequence, int32_t known, bool evicted) {
  sequence.was_admitted = true;
  sequence.admitted = Clock::now();
  sequence.usage.cached_tokens = sequence.computed;
  sequence.usage.miss = sequence.scoring()           ? PrefixMiss::scored
                        : sequence.computed == known ? PrefixMiss::none
                        : evicted                    ? PrefixMiss::evicted
                                                     : PrefixMiss::differs;
  ++stats_.prefix_lookups[static_cast<size_t>(sequence.usage.miss)];
  stats_.prompt_tokens += static_cast<uint64_t>(sequence.prompt_size);
  stats_.cached_tokens += static_cast<uint64_t>(sequence.computed);
}

// What there is no memory to remember is computed anew. So is what recurrent layers went over: the states at which
// others could go on are not kept.
void Scheduler::publish(Sequence& sequence) {
  if (sequence.sound <= sequence.published || options_.states > 0) return;
  if_memory_allows([&] {
    tree_.publish(sequence.scope, std::span(sequence.tokens).first(static_cast<size_t>(sequence.sound)),
                  std::span(sequence.pages).first(static_cast<size_t>(pages_for(sequence.sound))));
    sequence.published = sequence.sound;
  });
}

// One for the sequence's tokens, one for each draft: it reads the one that it has, so that a step can be tried again.
void Scheduler::take_states(Sequence& sequence) {
  if (options_.states == 0) return;
  sequence.next_states.reserve(1 + sequence.drafts.size());  // or a slot could be lost
  while (sequence.next_states.size() <= sequence.drafts.size()) sequence.next_states.push_back(*states_.allocate());
}

// Rewinds to the state after the last of its drafts that was right.
void Scheduler::keep_state(Sequence& sequence, int32_t accepted) {
  if (options_.states == 0) return;
  std::swap(sequence.state, sequence.next_states[static_cast<size_t>(accepted)]);
  release_next_states(sequence);
}

void Scheduler::release_next_states(Sequence& sequence) {
  for (const Slot slot : sequence.next_states)
    if (slot >= 0) states_.release(slot);
  sequence.next_states.clear();
}

void Scheduler::release_copy_source(Sequence& sequence) {
  if (sequence.copy) pool_.release(sequence.copy->from);
  sequence.copy.reset();
}

void Scheduler::release_pages(Sequence& sequence) {
  release_copy_source(sequence);
  for (const Page page : sequence.pages) pool_.release(page);
  sequence.pages.clear();
  release_next_states(sequence);
  if (sequence.state >= 0) states_.release(std::exchange(sequence.state, -1));
  sequence.computed = sequence.sound = sequence.published = 0;
}

void Scheduler::finish(Sequence& sequence, FinishReason reason, const Error* error) {
  if (reason != FinishReason::error) publish(sequence);
  release_pages(sequence);
  if (speculator_) if_memory_allows([&] { speculator_->ended(sequence); });
  sequence.finished = true;
  Finish finish{reason, std::nullopt, sequence.usage};
  const Clock::time_point now = Clock::now();
  finish.usage.queued_seconds = seconds_between(sequence.submitted, sequence.was_admitted ? sequence.admitted : now);
  if (sequence.was_admitted) {
    const bool began = sequence.usage.output_tokens > 0;
    finish.usage.prefill_seconds = seconds_between(sequence.admitted, began ? sequence.first_token : now);
    if (began) finish.usage.decode_seconds = seconds_between(sequence.first_token, now);
  }
  tell_end(sequence.request.tenant, *sequence.sink, std::move(finish), error);
}

// Whoever waits for it would wait in vain: so not before there is memory to tell it.
void Scheduler::tell_end(int32_t tenant, RequestSink& sink, Finish finish, const Error* error) {
  ++stats_.requests_finished;
  insist([&] { ended_.push_back(tenant); });
  insist([&] {
    if (error) finish.error = *error;
    sink.on_finish(finish);
  });
}

std::vector<Page> Scheduler::drop_cache() {
  while (tree_.evict()) continue;
  return pool_.free_pages();
}

EngineStats Scheduler::stats() const {
  EngineStats stats = stats_;
  if (speculator_) stats.speculation = speculator_->stats();
  stats.running = static_cast<int32_t>(running_.size());
  stats.queued = queued();
  stats.pages_total = pool_.total();
  stats.pages_used = pool_.used();
  stats.pages_cached = pool_.reclaimable();
  return stats;
}

}  // namespace martlet
