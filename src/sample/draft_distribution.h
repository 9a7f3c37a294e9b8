#pragma once

#include <span>
#include <vector>

#include "backend/batch.h"

namespace martlet {

// The distribution that a draft is drawn from: `best`, the likeliest tokens of a drafter's own distribution, under the
// adjustments, temperature, top-k, top-p and min-p of the target's `choice` (typical is left out: any distribution will
// do, the nearer to the target's the more drafts are accepted). Tokens ascending, as Choice::q wants them. Empty when
// nothing of `best` may be drawn.
std::vector<TokenProbability> draft_distribution(std::span<const TokenLogprob> best, const Choice& choice);

// `u`: uniform in [0, 1). `q` is not empty.
Token draw(std::span<const TokenProbability> q, double u);

}  // namespace martlet
