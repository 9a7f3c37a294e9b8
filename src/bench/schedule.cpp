#include "bench/schedule.h"

#include <algorithm>
#include <utility>

namespace martlet::bench {
namespace {

// The loads of one kind, each once.
std::vector<Turn> loads(const Contract& c, Kind kind) {
  std::vector<Turn> out;
  switch (kind) {
    case Kind::single:
      out.push_back({.kind = kind, .warmup = c.single.warmup, .measured = c.single.measured});
      break;
    case Kind::sweep:
      // The contract's 16 requests would leave half of 32 streams idle, and be a measurement of 16: each has one at
      // least.
      for (const int n : c.sweep.concurrency)
        out.push_back(
            {.kind = kind, .concurrency = n, .warmup = c.sweep.warmup, .measured = std::max(c.sweep.measured, n)});
      break;
    case Kind::dispatch:
      for (const int n : c.dispatch.instances)
        out.push_back({.kind = kind,
                       .instances = n,
                       .warmup = c.dispatch.warmup_per_instance,
                       .measured = c.dispatch.offered_at_once});
      break;
  }
  return out;
}

}  // namespace

Amounts contract_amounts() {
  return {.max_tokens = contract().max_tokens,
          .rounds = 2,
          .warmup_batches = 3,
          .contract = contract(),
          .kinds = {Kind::single, Kind::sweep, Kind::dispatch}};
}

Amounts quick_amounts() {
  Amounts out = contract_amounts();
  out.max_tokens = 32;
  out.warmup_batches = 1;
  out.contract.single = {1, 4};
  out.contract.sweep = {{1, 4}, 1, 4};
  out.contract.dispatch = {{1, 2}, 1, 4};
  return out;
}

Status choose_loads(Amounts& amounts, const std::vector<std::string>& names) {
  std::vector<bool> used(names.size());
  const auto named = [&](const std::string& load) {
    bool found = false;
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] == load) used[i] = found = true;
    return found;
  };
  for (const Kind kind : std::exchange(amounts.kinds, {})) {
    const std::string name(kind_name(kind));
    bool wanted = named(name);
    if (kind != Kind::single) {
      auto& counts = kind == Kind::sweep ? amounts.contract.sweep.concurrency : amounts.contract.dispatch.instances;
      const bool all = wanted;
      std::erase_if(counts, [&](int n) { return !named(name + ":" + std::to_string(n)) && !all; });
      wanted = !counts.empty();
    }
    if (wanted) amounts.kinds.push_back(kind);
  }
  if (std::find(used.begin(), used.end(), false) == used.end()) return {};
  return Error{ErrorKind::usage, "invalid_value",
               "must be single, sweep or dispatch, or one of the counts that are measured, such as sweep:4", "--loads"};
}

int most_at_once(const Amounts& amounts) {
  int most = 1;
  for (const Turn& turn : schedule(amounts, {true})) most = std::max(most, turn.concurrency);
  return most;
}

std::vector<Turn> schedule(const Amounts& amounts, const std::vector<bool>& dispatches) {
  std::vector<Turn> out;
  for (const Kind kind : amounts.kinds) {
    for (const Turn& load : loads(amounts.contract, kind)) {
      for (int round = 0; round < amounts.rounds; ++round) {
        for (size_t target = 0; target < dispatches.size(); ++target) {
          if (kind == Kind::dispatch && !dispatches[target]) continue;
          Turn turn = load;
          turn.target = target;
          turn.round = round;
          out.push_back(turn);
        }
      }
    }
  }
  return out;
}

}  // namespace martlet::bench
