#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/function_ref.h"

namespace martlet {

// What the lengths of the coming step's drafts are chosen by. Times in seconds.
struct DraftPrices {
  int32_t decoding = 0;                          // sequences that gain a token in the step in any case
  FunctionRef<double(int32_t drafts)> verify;    // time of the step with that many drafted rows in it
  FunctionRef<double(int32_t sequences)> draft;  // time of drafting one more token for that many sequences at once
};

// A sequence that may be drafted for.
struct DraftCandidate {
  std::vector<double> survival;  // [j]: chance that drafts 0 .. j are all accepted; does not grow with j
  double entry = 0;              // seconds that being drafted for costs beside, for each of its tokens
  int32_t last = 0;              // length chosen in the step before
};

struct Allocation {
  std::vector<int32_t> lengths;  // of each candidate
  double rate = 0;               // tokens a second that are expected with them
};

// The lengths that make most tokens a second (the formula is that of docs/speculation.md):
//
//     (decoding + sum of survivals) / (verify(sum of lengths) + sum over j of draft(sequences longer than j) + entries)
//
// An entry is borne by all tokens of its sequence in the step, so that an answer pays it once, however fast it comes.
//
// Drafts are admitted by their chance of survival, likeliest first; the best of all counts of them, none included, is
// taken. The lengths of the step before stay unless others are better by kHysteresis.
Allocation allocate_drafts(std::span<const DraftCandidate> candidates, const DraftPrices& prices);

inline constexpr double kHysteresis = 1.01;

}  // namespace martlet
