#pragma once

// How far tokens are drafted ahead of the model, and what came of it.

#include <array>
#include <cstdint>
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

// Counts since the start; index j of an array is draft j + 1 of a step.
struct SpeculationStats {
  std::array<uint64_t, kMaxDraft> drafted{}, accepted{};
  std::array<uint64_t, kMaxDraft + 1> decisions{};  // sequences in steps, by the drafts that were verified
  uint64_t failures = 0;                            // calls of the drafter that failed
  double draft_seconds = 0;                         // spent on drafting
  // What the cost table says that drafts cost, by the length that was verified: drafting, and verification.
  std::array<double, kMaxDraft + 1> price_seconds{};
  double saved_seconds = 0;  // what the accepted drafts would have cost without
  double off_seconds = 0;    // sum over sequences of the time for which their controller had drafting off
  bool given_back = false;   // the draft model was closed to make room

  // Of several engines together.
  SpeculationStats& operator+=(const SpeculationStats& other) {
    const auto add = [](auto& to, const auto& from) {
      for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
    };
    add(drafted, other.drafted), add(accepted, other.accepted), add(decisions, other.decisions);
    add(price_seconds, other.price_seconds);
    failures += other.failures, draft_seconds += other.draft_seconds;
    saved_seconds += other.saved_seconds, off_seconds += other.off_seconds;
    given_back |= other.given_back;
    return *this;
  }
};

}  // namespace martlet
