#pragma once

// What is left of a row of logits when a token is to be drawn from it: a device computes it, the host draws from it the
// token that it would draw from the whole row. Plain memory that both sides write and read.

#include <cstdint>

#include "base/ids.h"

namespace martlet {

// Weights exp((logit - largest) / temperature) are summed over blocks of so many logits, block sums over groups, and
// those over the row, each in ascending order: wherever that is done, a seed draws the same token.
inline constexpr int32_t kWeightBlock = 64, kBlocksOfGroup = 64;
inline constexpr int32_t kMostCandidates = 1024;

struct TokenLogit {
  Token token;
  float logit;
};

struct Excerpt {
  float largest;  // logit
  Token best;     // the smallest token that has it
  double total;   // weight of the whole row; not set where top-k or min-p alone leave tokens out

  // Where nothing leaves tokens out: the block that the draw falls into, and what is left of it there.
  double left;
  Token first;  // of the block; what the last block has fewer logits is -infinity
  float block[kWeightBlock];

  // Where something does: all tokens whose logits are at least some bound, in any order; -1: there are too many.
  int32_t count;
  TokenLogit candidates[kMostCandidates];
};

}  // namespace martlet
