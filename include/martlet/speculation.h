#pragma once

// How far tokens are drafted ahead of the model, and what came of it.

#include <array>
#include <cstdint>
#include <numeric>
#include <string_view>

#include "base/error.h"

namespace martlet {

inline constexpr int32_t kMaxDraft = 16;  // tokens that one step verifies for one sequence

// Who decides how many tokens are drafted for a sequence.
struct Speculation {
  enum class Mode {
    automatic,  // whatever makes most tokens a second by the measured costs, none included
    window,     // 3 to 6, and none for a while where less than 40 % of the last 32 drafts were right
    off,
    fixed,  // always `length`: for experiments
  };
  Mode mode = Mode::automatic;
  int32_t length = 0;  // 1 .. kMaxDraft where mode is fixed
};

// "auto", "window", "off" or "fixed:K". Errors: ErrorKind::request, `invalid_value`, without a place.
Result<Speculation> parse_speculation(std::string_view text);

// What came of drafts: of one step, of one answer, of an engine since its start.
struct DraftCounts {
  std::array<int64_t, kMaxDraft> drafted{}, accepted{};  // tokens by their place in the draft
  double price_seconds = 0;  // what the cost table says that they cost: drafting, and verification
  double off_seconds = 0;    // of steps for which a sequence's controller wanted none, summed over sequences

  int64_t drafted_tokens() const { return total(drafted); }
  int64_t accepted_tokens() const { return total(accepted); }

  DraftCounts& operator+=(const DraftCounts& other) {
    for (size_t j = 0; j < drafted.size(); ++j) drafted[j] += other.drafted[j], accepted[j] += other.accepted[j];
    price_seconds += other.price_seconds, off_seconds += other.off_seconds;
    return *this;
  }

 private:
  static int64_t total(const std::array<int64_t, kMaxDraft>& tokens) {
    return std::accumulate(tokens.begin(), tokens.end(), int64_t{0});
  }
};

// Counts since the start.
struct SpeculationStats {
  DraftCounts drafts;
  std::array<uint64_t, kMaxDraft + 1> decisions{};    // sequences in steps, by the drafts that were verified
  uint64_t failures = 0;                              // calls of the drafter that failed
  double draft_seconds = 0;                           // spent on drafting
  std::array<double, kMaxDraft + 1> price_seconds{};  // DraftCounts::price_seconds of these decisions
  double saved_seconds = 0;                           // what the accepted drafts would have cost without
  bool given_back = false;                            // the draft model was closed to make room

  // Of several engines together.
  SpeculationStats& operator+=(const SpeculationStats& other) {
    const auto add = [](auto& to, const auto& from) {
      for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
    };
    drafts += other.drafts;
    add(decisions, other.decisions), add(price_seconds, other.price_seconds);
    failures += other.failures, draft_seconds += other.draft_seconds, saved_seconds += other.saved_seconds;
    given_back |= other.given_back;
    return *this;
  }
};

}  // namespace martlet
