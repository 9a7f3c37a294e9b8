#pragma once

#include <cstdint>
#include <span>

#include "engine/sequence.h"

namespace martlet {

// Proposes what may follow sequences, and learns what came of it. The model decides: a wrong proposal costs rows, never
// output. Called on the engine's thread.
class Speculator {
 public:
  virtual ~Speculator() = default;
  // Before each step, with every sequence that decodes in it: fills Sequence::drafts (empty before) with at most
  // most_drafts() tokens each and `rows` in all. What has no page is cut off afterwards.
  virtual void propose(std::span<Sequence* const> decoding, int32_t rows) = 0;
  // After the step: of the sequence's drafts, still there, the first `accepted` are what the model chose.
  virtual void verified(const Sequence& sequence, int32_t accepted) = 0;
};

}  // namespace martlet
