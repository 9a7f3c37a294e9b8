#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "backend/cost_table.h"
#include "base/error.h"
#include "base/out_of_memory.h"
#include "cache/page_pool.h"
#include "cache/prefix_tree.h"
#include "engine/mailbox.h"
#include "engine/sequence.h"
#include "engine/speculator.h"
#include "engine/step.h"
#include "martlet/engine.h"

namespace martlet {

struct SchedulerOptions {
  int32_t page_tokens = 0, pages = 0;
  int32_t states = 0;   // slots of recurrent layers, at least two a running sequence; 0: the model has no such layers
  int32_t context = 0;  // tokens a sequence may hold; `pages` hold at least as many
  int32_t max_sequences = 0;
  int32_t prefill_chunk = 0;  // prefill rows of one step at most
  int32_t max_rows = 0;       // rows of one step at most; more than max_sequences
  double tpot_target = 0;     // seconds of a step that holds streams and prompts; 0: kTpotFactor times one without
  bool prefix_cache = true;   // false: no request takes over what another computed
};

// How much longer than a step of streams alone a step with parts of prompts may take.
inline constexpr double kTpotFactor = 1.5;
// Prompts get so many rows of a step although it then takes longer, or nobody new would ever be served.
inline constexpr int32_t kLeastPrefill = 32;
// Where rows are so dear that even those would make steps of a long prompt this many times longer, it gets fewer, but
// never fewer than these: below that it would hardly get on.
inline constexpr double kMostTpotFactor = 2;
inline constexpr int32_t kFewestPrefill = 4;

// Decides what each step computes. Used by the engine's thread alone.
//
// Requests are ranked by arrival, moved by their priority in seconds, so nobody is passed over for ever. Of the tenants
// that wait, the one with the fewest running sequences is next, with its first in rank, as soon as the pool has pages
// for all its tokens and one more for every sequence that runs already. One whose prompt a running sequence is just
// computing waits for that and adopts it. When a running sequence needs a page and none is free, the least recently
// used prefix that nobody needs is forgotten; when there is none, the last in rank is preempted: its pages are freed
// and it waits again. Its output does not change, since its tokens and its random numbers are kept.
//
// Where the system has no memory, next() throws std::bad_alloc and may be called again; whatever else needed some has
// ended the one request that it was for, with `out_of_memory`.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options, Speculator* speculator = nullptr);
  void use(Speculator* speculator) { speculator_ = speculator; }  // before the first step; null: none

  void submit(Submission&& submission);
  void cancel(RequestId id);
  // Whoever runs ends with `out_of_memory`; where nobody does, the first in line, whose admission finds none.
  void starve();
  void end_all(FinishReason reason, const Error* error);  // every request, running or queued

  // The next step, valid until the next call; null when nothing runs.
  Step* next();
  // Takes the step's answers after `seconds` of computing: appends, emits, publishes, finishes, rewinds drafts that
  // were not chosen. An error fails the requests of that step only.
  void commit(Step& step, const Status& status, double seconds);

  // Forgets every prefix that nobody runs on. Returns the pages that hold nothing any more.
  std::vector<Page> drop_cache();

  PagePool& pool() { return pool_; }
  PrefixTree& tree() { return tree_; }
  int32_t queued() const { return static_cast<int32_t>(queue_.size()); }
  // Tenants of the requests that ended since the last call.
  std::vector<int32_t> take_ended() { return std::exchange(ended_, {}); }
  const CostTable& costs() const { return costs_; }
  EngineStats stats() const;

 private:
  using Owned = std::unique_ptr<Sequence>;
  struct Answers {
    const Choice* choice;
    const Chosen* chosen;
    const TokenLogprob* top;
    void advance() {
      top += std::max(choice->top, 0);
      ++choice, ++chosen;
    }
    void skip(int32_t outputs) {
      for (int32_t i = 0; i < outputs; ++i) advance();
    }
  };
  enum class Admission { admitted, no_room, waits };

  // scheduler.cpp: who runs
  void enqueue(Submission&& submission);
  void end_running(FinishReason reason, const Error* error);
  void grow();
  void admit();
  std::vector<Owned>::iterator next_in_line();
  Admission admit(Sequence& sequence);
  bool computed_by_another(const Sequence& sequence, int32_t adopted, int32_t known) const;
  void note_admission(Sequence& sequence, int32_t known, bool evicted);
  void preempt_last();
  bool take_page(Sequence& sequence);
  int32_t pages_for(int32_t tokens) const;
  void publish(Sequence& sequence);
  void take_states(Sequence& sequence);
  void keep_state(Sequence& sequence, int32_t accepted);
  void release_next_states(Sequence& sequence);
  void release_copy_source(Sequence& sequence);
  void release_pages(Sequence& sequence);
  void finish(Sequence& sequence, FinishReason reason, const Error* error = nullptr);
  void tell_end(int32_t tenant, RequestSink& sink, Finish finish, const Error* error);

  // step_scheduling.cpp: what a step holds and what comes of it
  void propose();
  void fill();
  void add(Sequence& sequence, int32_t rows);
  void add_prefill(std::vector<Sequence*>& prompts);
  int32_t prefill_budget(const std::vector<Sequence*>& prompts) const;
  void accept(const Step::Entry& entry, Answers answers, double seconds);
  Status accept_one(Sequence& sequence, const Answers& answers);
  std::optional<FinishReason> outcome(const Sequence& sequence) const;
  void after_rows(Sequence& sequence);

  const SchedulerOptions options_;
  const Error no_memory_ = out_of_memory();  // ready before there is none
  Speculator* speculator_;
  PagePool pool_, states_;
  PrefixTree tree_;
  CostTable costs_;
  std::vector<Owned> queue_, running_;  // each in rank
  Step step_;
  std::vector<Sequence*> decoding_, prompts_;  // of the step that is being filled
  std::vector<Emitted> emitted_;               // by the sequence that is being accepted
  std::vector<int32_t> ended_;
  std::mt19937_64 seeds_;
  EngineStats stats_;
};

}  // namespace martlet
