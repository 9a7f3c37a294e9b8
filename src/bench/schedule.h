#pragma once

// Which engine runs under which load, in which order: A B A B, so that a machine that gets slower or faster meanwhile
// does so to all of them.

#include <string>
#include <vector>

#include "bench/contract.h"
#include "bench/result.h"

namespace martlet::bench {

// How much of each load there is.
struct Amounts {
  int max_tokens = 0, rounds = 0;
  int warmup_batches = 0;  // at most, until rates settle
  Contract contract;       // its own counts, or smaller ones
  std::vector<Kind> kinds;
};
// The contract's, or those of a quick run, which are for trying out.
Amounts contract_amounts();
Amounts quick_amounts();
// Leaves only the loads that are named: "single", "sweep", "dispatch", or one count of a kind, such as "sweep:32".
// Errors: ErrorKind::usage `invalid_value` for a name of no load of `amounts`.
Status choose_loads(Amounts& amounts, const std::vector<std::string>& names);

// The most requests that one process has to answer at once.
int most_at_once(const Amounts& amounts);

struct Turn {
  size_t target = 0;
  Kind kind = Kind::single;
  int concurrency = 1, instances = 1, round = 0;
  int warmup = 0;    // requests to each process
  int measured = 0;  // requests to all of them
};
// `dispatches[t]`: whether target t can run as several processes; else it has no dispatch turns.
std::vector<Turn> schedule(const Amounts& amounts, const std::vector<bool>& dispatches);

}  // namespace martlet::bench
