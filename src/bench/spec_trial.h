#pragma once

// One measured turn of `martlet bench spec`: requests that run at once, and what came of their drafts.

#include <string>
#include <vector>

#include "martlet/engine.h"

namespace martlet::bench {

struct SpecTrial {
  double tokens_per_s = 0;  // of all streams, from their first tokens to their last
  int64_t tokens = 0, steps = 0, drafted = 0, accepted = 0;
  std::vector<std::vector<Token>> outputs;  // of each stream
};

// Runs `requests` together until all have ended. Errors: those of Engine::submit and of the steps.
Result<SpecTrial> run_trial(Engine& engine, const std::vector<Request>& requests);

}  // namespace martlet::bench
