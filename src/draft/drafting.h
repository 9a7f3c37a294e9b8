#pragma once

// Which sequences are drafted for in a step, how far, and what is learnt from the outcome.

#include <memory>
#include <vector>

#include "draft/acceptance.h"
#include "draft/allocate.h"
#include "draft/drafter.h"
#include "draft/window_rule.h"
#include "martlet/speculation.h"

namespace martlet {

// What is kept of a sequence from step to step.
struct DraftState {
  Speculation rule;
  WindowRule window;
  Surprise surprise;
  Departure departure;
  int32_t last = 0;   // length chosen in the step before
  int32_t idle = 0;   // steps without a draft since the last one
  Draft draft;        // to be verified in the coming step
  int32_t level = 0;  // of surprise when it was made
  bool off = false;   // its controller wants none in the coming step
  double price = 0;   // seconds that the draft is expected to cost, verification included
};

struct DraftSeat {
  RequestId id;
  std::span<const Token> tokens;
  const Sampler* sampler;
  DraftState* state;
  int32_t room;       // drafts that may be verified at most: what is left of the answer, of the context
  int64_t scope = 0;  // see DraftTask
};

// Seconds of the coming step with that many rows; 0: not known.
using StepSeconds = FunctionRef<double(int32_t rows)>;

class Drafting {
 public:
  Drafting(std::unique_ptr<Drafter> drafter, int32_t vocabulary)
      : drafter_(std::move(drafter)), vocabulary_(vocabulary), acceptance_(*drafter_) {}

  // Fills the states' drafts. `rows`: of the step without drafts; `spare`: rows that drafts may add in all.
  void propose(std::span<const DraftSeat> seats, int32_t rows, int32_t spare, StepSeconds seconds);
  // The step is over: `chosen` are the tokens that joined the sequence, which its draft is held against.
  // `step_seconds`: of the whole step.
  DraftCounts verified(const DraftSeat& seat, std::span<const Token> chosen, double step_seconds);
  // DraftState::surprise is to be kept up: lengths are chosen by it.
  bool surprises() const { return !drafter_->free(); }

  void forget(RequestId sequence) { drafter_->forget(sequence); }
  void keep(int64_t scope, std::span<const Token> answer) { drafter_->keep(scope, answer); }
  // The draft model's memory, for more urgent things; false: there is none to give.
  bool give_back();

  const Drafter& drafter() const { return *drafter_; }
  const SpeculationStats& stats() const { return stats_; }

 private:
  struct Seating;

  void draft(Seating& seating, bool gated);
  void plan(Seating& seating);
  void choose_lengths(Seating& seating, bool planned);
  bool worth_a_probe(Seating& seating, const DraftSeat& seat);
  bool pays(const Seating& seating, size_t task, int32_t position, double survival, double drafting) const;
  Verdict gate(Seating& seating, size_t task, int32_t position, int32_t confidence);
  void check(Draft& draft) const;
  void note(Seating& seating);

  std::unique_ptr<Drafter> drafter_;
  const int32_t vocabulary_;
  Acceptance acceptance_;
  SpeculationStats stats_;
  int32_t failures_ = 0, pause_ = 0;  // in a row; steps until the drafter is asked again
  int32_t idle_ = 0;                  // steps without a draft of any sequence since the last one
  double probe_seconds_ = 0;          // that may be lost to probes by now
  double price_ = 0;                  // of a step's base, a token
};

}  // namespace martlet
