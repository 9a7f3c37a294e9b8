// What is made of confidences that were seen, and of those that were not.

#include "draft/acceptance.h"

#include <gtest/gtest.h>

#include <functional>

namespace martlet {
namespace {

class Claimant final : public Drafter {
 public:
  explicit Claimant(std::function<double(int32_t)> chance) : chance_(std::move(chance)) {}
  std::string_view name() const override { return "claimant"; }
  bool free() const override { return false; }
  double chance(int32_t confidence) const override { return chance_(confidence); }
  Status draft(std::span<DraftTask>, DraftGate, double) override { return {}; }
  void forget(RequestId) override {}

 private:
  const std::function<double(int32_t)> chance_;
};

double claim(int32_t confidence) {
  return (confidence + 0.5) / kConfidences;
}

// Ten drafts of each confidence from 4 on, `right(confidence)` of ten accepted.
Acceptance after(const Drafter& drafter, const std::function<double(int32_t)>& right) {
  Acceptance acceptance(drafter);
  for (int32_t i = 0; i < 10; ++i)
    for (int32_t c = 4; c < kConfidences; ++c) acceptance.add(Drawing::drawn, 2, 0, c, i < 10 * right(c));
  return acceptance;
}

TEST(Acceptance, IsHopefulAtFirst) {
  const Acceptance none{Claimant(claim)};
  EXPECT_GT(none.given(Drawing::drawn, kConfidences / 2), 0.9);
  EXPECT_GT(none.expected(Drawing::drawn, 2, 0), 0.6);
}

TEST(Acceptance, ConfidencesNotSeenTakeAfterTheDraftersClaims) {
  const Acceptance acceptance = after(Claimant(claim), claim);
  for (int32_t c = 0; c < kConfidences; ++c) EXPECT_NEAR(acceptance.given(Drawing::drawn, c), claim(c), 0.1) << c;
}

TEST(Acceptance, ADrafterThatIsBetterThanItClaimsIsSoAtEveryConfidence) {
  const Acceptance acceptance = after(Claimant(claim), [](int32_t) { return 1; });
  for (int32_t c = 0; c < kConfidences; ++c) EXPECT_GT(acceptance.given(Drawing::drawn, c), 0.85) << c;
}

TEST(Acceptance, WithoutClaimsAllConfidencesAreAlikeUntilTheyAreSeen) {
  const Acceptance acceptance =
      after(Claimant([](int32_t) { return 0.5; }), [](int32_t c) { return c < 8 ? 0.2 : 0.8; });
  EXPECT_NEAR(acceptance.given(Drawing::drawn, 0), 0.5, 0.05);
  EXPECT_LT(acceptance.given(Drawing::drawn, 5), 0.35);
  EXPECT_GT(acceptance.given(Drawing::drawn, 9), 0.65);
}

}  // namespace
}  // namespace martlet
