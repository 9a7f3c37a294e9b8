#pragma once

// Whether an upstream shall draft: by the share of its last 32 drafted tokens that were accepted.

#include <cstdint>
#include <deque>
#include <utility>

#include "gateway/time.h"

namespace martlet::gateway {

struct DraftOptions {
  int64_t window = 32;             // drafted tokens
  double least_acceptance = 0.40;  // below it: no drafts
  Duration try_again = std::chrono::seconds(30);
};

class DraftRule {
 public:
  explicit DraftRule(DraftOptions options = {}) : options_(options) {}

  // An answer, or a part of one, drafted so many tokens, of which so many were accepted.
  void saw(int64_t drafted, int64_t accepted, Time now);
  // Drafts do not pay, whatever their acceptance.
  void switch_off(Time now);
  // True while drafts are worth asking for. After try_again without them, a full window of them is tried anew.
  bool drafts(Time now) const { return on_ || now - off_since_ >= options_.try_again; }
  // Share of the window; -1 before it is full.
  double acceptance() const;

 private:
  DraftOptions options_;
  std::deque<std::pair<int64_t, int64_t>> seen_;  // drafted, accepted; the newest last
  int64_t drafted_ = 0, accepted_ = 0;
  bool on_ = true;
  Time off_since_{};
};

}  // namespace martlet::gateway
