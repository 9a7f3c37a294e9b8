#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "base/error.h"
#include "cache/page_pool.h"
#include "cache/prefix_tree.h"
#include "engine/mailbox.h"
#include "engine/sequence.h"
#include "engine/step.h"
#include "martlet/engine.h"

namespace martlet {

struct SchedulerOptions {
  int32_t page_tokens = 0, pages = 0;
  int32_t context = 0;  // tokens a sequence may hold; `pages` hold at least as many
  int32_t max_sequences = 0;
  int32_t prefill_chunk = 0;  // prefill rows of one step at most
  int32_t max_rows = 0;       // rows of one step at most; more than max_sequences
};

// Decides what each step computes. Used by the engine's thread alone.
//
// Requests are admitted in order, each when the pool has pages for all its tokens and one more for every sequence that
// runs already. When a running sequence needs a page and none is free, the least recently used prefix that nobody needs
// is forgotten; when there is none, the youngest sequence is preempted: its pages are freed and it goes back to the
// head of the queue. Its output does not change, since its tokens and its random numbers are kept.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);

  void submit(Submission&& submission);
  void cancel(RequestId id);
  void end_all(FinishReason reason, const Error* error);  // every request, running or queued

  // The next step, valid until the next call; null when nothing runs.
  Step* next();
  // Takes the step's answers: appends, emits, publishes, finishes. An error fails the requests of that step only.
  void commit(Step& step, const Status& status);

  int32_t queued() const { return static_cast<int32_t>(queue_.size()); }
  EngineStats stats() const;

 private:
  using Owned = std::unique_ptr<Sequence>;
  struct Answers {
    const Choice* choice;
    const Chosen* chosen;
    const TokenLogprob* top;
  };

  void grow();
  void admit();
  bool admit(Sequence& sequence);
  void fill();
  void preempt_youngest();
  bool take_page(Sequence& sequence);
  int32_t pages_for(int32_t tokens) const;

  void accept(const Step::Entry& entry, Answers& answers);
  Status accept_one(Sequence& sequence, const Answers& answers, std::vector<Emitted>& emitted);
  std::optional<FinishReason> outcome(const Sequence& sequence, std::span<const Emitted> emitted) const;
  void publish(Sequence& sequence);
  void release_pages(Sequence& sequence);
  void finish(Sequence& sequence, FinishReason reason, const Error* error = nullptr);

  const SchedulerOptions options_;
  PagePool pool_;
  PrefixTree tree_;
  std::deque<Owned> queue_;
  std::vector<Owned> running_;  // oldest first
  Step step_;
  std::vector<Emitted> emitted_;
  std::mt19937_64 seeds_;
  EngineStats stats_;
};

}  // namespace martlet
