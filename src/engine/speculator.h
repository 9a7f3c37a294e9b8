#pragma once

#include <cstdint>
#include <span>

#include "backend/cost_table.h"
#include "engine/sequence.h"

namespace martlet {

// What is known of a step before its drafts are.
struct StepOutlook {
  int32_t spare_rows = 0;   // that drafts may have at most, all together
  int32_t prompt_rows = 0;  // about as many rows of prompts will be in it
  const CostTable& costs;
};

// Proposes what may follow sequences, and learns what came of it. The model decides: a wrong proposal costs rows, never
// output. Called on the engine's thread.
class Speculator {
 public:
  virtual ~Speculator() = default;
  // Before each step, with every sequence that decodes in it: fills Sequence::drafts (empty before) with at most
  // most_drafts() tokens each. What has no page is cut off afterwards.
  virtual void propose(std::span<Sequence* const> decoding, const StepOutlook& step) = 0;
  // After the step, of `seconds`, for each of them: its drafts are still there, and `emitted` is what the model chose.
  virtual void verified(Sequence& sequence, std::span<const Emitted> emitted, double seconds) = 0;
  virtual void forget(const Sequence& sequence) = 0;  // it gave up its pages
  virtual void ended(const Sequence& sequence) { forget(sequence); }
  // Frees memory for something more urgent; false: there is none to free.
  virtual bool give_back() { return false; }
  virtual SpeculationStats stats() const { return {}; }
};

}  // namespace martlet
