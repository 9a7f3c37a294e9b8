#pragma once

#include <memory>
#include <vector>

#include "draft/drafting.h"
#include "engine/speculator.h"

namespace martlet {

// Drafts for the sequences of an engine under the rule of each, or the engine's own.
class DraftSpeculator final : public Speculator {
 public:
  DraftSpeculator(std::unique_ptr<Drafter> drafter, Speculation rule, int32_t vocabulary)
      : rule_(rule), drafting_(std::move(drafter), vocabulary) {}

  void propose(std::span<Sequence* const> decoding, const StepOutlook& step) override;
  void verified(Sequence& sequence, std::span<const Emitted> emitted, double seconds) override;
  void forget(const Sequence& sequence) override { drafting_.forget(sequence.id); }
  void ended(const Sequence& sequence) override;
  bool give_back() override { return drafting_.give_back(); }
  SpeculationStats stats() const override { return drafting_.stats(); }

 private:
  static DraftSeat seat(Sequence& sequence);

  const Speculation rule_;
  Drafting drafting_;
  std::vector<DraftSeat> seats_;
  std::vector<Token> chosen_;
  std::vector<bool> measured_;  // [sequences]: the cost table knows a step of so many without drafts
};

}  // namespace martlet
