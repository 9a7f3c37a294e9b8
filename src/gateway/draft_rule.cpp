#include "gateway/draft_rule.h"

#include <algorithm>

namespace martlet::gateway {

double DraftRule::acceptance() const {
  return drafted_ < options_.window ? -1 : static_cast<double>(accepted_) / static_cast<double>(drafted_);
}

void DraftRule::saw(int64_t drafted, int64_t accepted, Time now) {
  if (drafted <= 0) return;
  if (!on_) {
    // Answers that were on their way when the drafts were switched off say what is known already.
    if (now - off_since_ < options_.try_again) return;
    on_ = true;
    seen_.clear();
    drafted_ = accepted_ = 0;
  }
  accepted = std::clamp<int64_t>(accepted, 0, drafted);
  seen_.emplace_back(drafted, accepted);
  drafted_ += drafted;
  accepted_ += accepted;
  // What lies wholly outside the window goes.
  while (drafted_ - seen_.front().first >= options_.window) {
    drafted_ -= seen_.front().first;
    accepted_ -= seen_.front().second;
    seen_.pop_front();
  }
  if (drafted_ >= options_.window && acceptance() < options_.least_acceptance) switch_off(now);
}

void DraftRule::switch_off(Time now) {
  if (!drafts(now)) return;
  on_ = false;
  off_since_ = now;
}

}  // namespace martlet::gateway
