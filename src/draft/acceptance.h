#pragma once

// How likely drafts are to be accepted, learnt from those that were.

#include <array>
#include <cstdint>

#include "draft/drafter.h"
#include "martlet/speculation.h"

namespace martlet {

// How surprising a text has been of late: the smoothed -log p, in nats, of the tokens that the target chose. The one
// thing that is known about the next draft before any of it is computed, and for nothing.
class Surprise {
 public:
  static constexpr int32_t kLevels = 6;
  void add(double nats);
  int32_t level() const;

 private:
  double nats_ = 0;
  int32_t samples_ = 0;
};

// Greedy and drawn texts accept differently.
enum class Drawing { greedy, drawn };

// Where one sequence departs from all others: accepted drafts over those that were expected to be.
class Departure {
 public:
  void add(double chance, bool accepted);
  double factor() const { return (accepted_ + kPrior) / (expected_ + kPrior); }

 private:
  static constexpr double kPrior = 8, kMemory = 32;  // drafts
  double accepted_ = 0, expected_ = 0;
};

class Acceptance {
 public:
  explicit Acceptance(const Drafter& drafter);

  // Of draft `position` (from 0), given that those before it are accepted.
  double expected(Drawing drawing, int32_t surprise, int32_t position) const;
  // The same once the drafter has said how sure it is.
  double given(Drawing drawing, int32_t confidence) const;
  void add(Drawing drawing, int32_t surprise, int32_t position, int32_t confidence, bool accepted);
  // Computed tokens for one that turns out to be worth its verification; only of those are the acceptances above.
  double computed(Drawing drawing, int32_t surprise) const;
  void add_computed(Drawing drawing, int32_t surprise, bool worth_verifying);

 private:
  struct Ratio {
    double accepted = 0, tried = 0;
    void add(bool was_accepted);
    double or_else(double parent) const;
  };
  struct Table {
    Ratio all;
    double claimed = 0;  // of all.accepted, by what the drafter makes of its confidences
    double shifted(double chance) const;
    std::array<std::array<Ratio, kMaxDraft>, Surprise::kLevels> by_position;
    std::array<Ratio, kConfidences> by_confidence;
    std::array<Ratio, Surprise::kLevels> worth_verifying;
  };
  Table& table(Drawing drawing) { return tables_[static_cast<size_t>(drawing)]; }
  const Table& table(Drawing drawing) const { return tables_[static_cast<size_t>(drawing)]; }

  std::array<double, kConfidences> chances_;  // what the drafter makes of its confidences
  std::array<Table, 2> tables_;
};

}  // namespace martlet
