#include "draft/acceptance.h"

#include <algorithm>

namespace martlet {
namespace {

constexpr double kSurpriseMemory = 6;  // tokens
constexpr std::array<double, Surprise::kLevels - 1> kSurpriseLevels = {0.1, 0.3, 0.7, 1.5, 3};
constexpr double kMemory = 256;                   // drafts that a ratio remembers
constexpr double kPriorDrafts = 4, kPrior = 0.7;  // before anything is known: hopeful, so that it is found out
constexpr double kMost = 0.99;
constexpr double kPriorClaims = 3, kPriorShifted = 0.95;  // likewise: hardly any draft is thought wrong

double odds(double part, double whole) {
  return part / (whole - part);
}

}  // namespace

void Surprise::add(double nats) {
  samples_ = std::min(samples_ + 1, static_cast<int32_t>(kSurpriseMemory));
  nats_ += (nats - nats_) / samples_;
}

int32_t Surprise::level() const {
  return static_cast<int32_t>(std::upper_bound(kSurpriseLevels.begin(), kSurpriseLevels.end(), nats_) -
                              kSurpriseLevels.begin());
}

void Departure::add(double chance, bool accepted) {
  accepted_ += (accepted ? 1 : 0) - accepted_ / kMemory;
  expected_ += chance - expected_ / kMemory;
}

void Acceptance::Ratio::add(bool was_accepted) {
  accepted += (was_accepted ? 1 : 0) - accepted / kMemory;
  tried += 1 - tried / kMemory;
}

double Acceptance::Ratio::or_else(double parent) const {
  return (accepted + kPriorDrafts * parent) / (tried + kPriorDrafts);
}

Acceptance::Acceptance(const Drafter& drafter) {
  for (int32_t c = 0; c < kConfidences; ++c) chances_[static_cast<size_t>(c)] = drafter.chance(c);
}

// A drafter that is right more often than it claims is so at every confidence: its odds are off by one factor.
double Acceptance::Table::shifted(double chance) const {
  const double tried = all.tried + kPriorClaims;
  const double factor =
      odds(all.accepted + kPriorShifted * kPriorClaims, tried) / odds(claimed + 0.5 * kPriorClaims, tried);
  return odds(chance, 1) * factor / (1 + odds(chance, 1) * factor);
}

double Acceptance::expected(Drawing drawing, int32_t surprise, int32_t position) const {
  const Table& t = table(drawing);
  const Ratio& cell = t.by_position[static_cast<size_t>(surprise)][static_cast<size_t>(position)];
  return std::min(kMost, cell.or_else(t.all.or_else(kPrior)));
}

double Acceptance::given(Drawing drawing, int32_t confidence) const {
  const auto at = static_cast<size_t>(confidence);
  const Table& t = table(drawing);
  return std::min(kMost, t.by_confidence[at].or_else(t.shifted(chances_[at])));
}

void Acceptance::add(Drawing drawing, int32_t surprise, int32_t position, int32_t confidence, bool accepted) {
  Table& t = table(drawing);
  t.claimed += chances_[static_cast<size_t>(confidence)] - t.claimed / kMemory;
  t.all.add(accepted);
  t.by_position[static_cast<size_t>(surprise)][static_cast<size_t>(position)].add(accepted);
  t.by_confidence[static_cast<size_t>(confidence)].add(accepted);
}

double Acceptance::computed(Drawing drawing, int32_t surprise) const {
  return 1 / table(drawing).worth_verifying[static_cast<size_t>(surprise)].or_else(1);
}

void Acceptance::add_computed(Drawing drawing, int32_t surprise, bool worth_verifying) {
  table(drawing).worth_verifying[static_cast<size_t>(surprise)].add(worth_verifying);
}

}  // namespace martlet
