#include "draft/allocate.h"

#include <algorithm>

namespace martlet {
namespace {

class Plan {
 public:
  Plan(std::span<const DraftCandidate> candidates, const DraftPrices& prices)
      : candidates_(candidates), prices_(prices), lengths_(candidates.size(), 0) {}

  void lengthen(size_t candidate) {
    const DraftCandidate& c = candidates_[candidate];
    const auto position = static_cast<size_t>(lengths_[candidate]++);
    if (position >= sequences_.size()) sequences_.resize(position + 1, 0);
    ++sequences_[position];
    ++drafts_;
    survivals_ += c.survival[position];
    if (position == 0) entries_ += c.entry;
    entries_ += c.entry * c.survival[position];
  }

  double rate() const {
    double seconds = prices_.verify(drafts_) + entries_;
    for (const int32_t n : sequences_) seconds += prices_.draft(n);
    return seconds > 0 ? (prices_.decoding + survivals_) / seconds : 0;
  }

  const std::vector<int32_t>& lengths() const { return lengths_; }

 private:
  std::span<const DraftCandidate> candidates_;
  const DraftPrices& prices_;
  std::vector<int32_t> lengths_;
  std::vector<int32_t> sequences_;  // [j]: that have a draft j
  int32_t drafts_ = 0;
  double survivals_ = 0, entries_ = 0;
};

struct Item {
  size_t candidate;
  double survival;
};

// A sequence's drafts come in order, since survivals do not grow and the sort is stable.
std::vector<Item> by_survival(std::span<const DraftCandidate> candidates) {
  std::vector<Item> items;
  for (size_t c = 0; c < candidates.size(); ++c)
    for (const double survival : candidates[c].survival) items.push_back({c, survival});
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.survival > b.survival; });
  return items;
}

}  // namespace

Allocation allocate_drafts(std::span<const DraftCandidate> candidates, const DraftPrices& prices) {
  Plan plan(candidates, prices), last(candidates, prices);
  Allocation best{plan.lengths(), plan.rate()};
  for (const Item& item : by_survival(candidates)) {
    plan.lengthen(item.candidate);
    if (const double rate = plan.rate(); rate > best.rate) best = {plan.lengths(), rate};
  }
  for (size_t c = 0; c < candidates.size(); ++c) {
    const auto most = static_cast<int32_t>(candidates[c].survival.size());
    for (int32_t i = 0; i < std::min(candidates[c].last, most); ++i) last.lengthen(c);
  }
  if (best.rate > kHysteresis * last.rate()) return best;
  return {last.lengths(), last.rate()};
}

}  // namespace martlet
