#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace martlet {
namespace {

// The pair index at which RoPE turns `rotations` times over the original context (YaRN, equation 17 solved for the
// index).
double pair_with_rotations(const Hyperparameters& h, double rotations) {
  const double per_radian = h.rope_scaling.original_context / (rotations * 2 * std::numbers::pi);
  return h.rotated * std::log(per_radian) / (2 * std::log(h.rope_base));
}

// How much of each frequency YaRN keeps: 1 below the fast bound, 0 above the slow one, a straight line between. The
// bounds are rounded outwards and clamped as in the published code.
class YarnRamp {
 public:
  explicit YarnRamp(const Hyperparameters& h)
      : low_(std::max(std::floor(pair_with_rotations(h, h.rope_scaling.beta_fast)), 0.0)),
        high_(std::min(std::ceil(pair_with_rotations(h, h.rope_scaling.beta_slow)), h.rotated - 1.0)) {}
  double kept(int32_t pair) const { return 1 - std::clamp((pair - low_) / std::max(high_ - low_, 1e-3), 0.0, 1.0); }

 private:
  double low_, high_;
};

}  // namespace

std::vector<float> rope_frequencies(const Hyperparameters& h, std::span<const float> factors) {
  const RopeScaling& scaling = h.rope_scaling;
  const YarnRamp ramp(h);
  std::vector<float> frequencies(static_cast<size_t>(h.rotated / 2));
  for (int32_t i = 0; i < h.rotated / 2; ++i) {
    const auto at = static_cast<size_t>(i);
    double frequency = std::pow(h.rope_base, -2.0 * i / h.rotated);
    if (!factors.empty()) frequency /= factors[at];
    if (scaling.kind == RopeScaling::Kind::linear) frequency /= scaling.factor;
    if (scaling.kind == RopeScaling::Kind::yarn) {
      const double kept = ramp.kept(i) * scaling.extrapolation;
      frequency = frequency * kept + frequency / scaling.factor * (1 - kept);
    }
    frequencies[at] = static_cast<float>(frequency);
  }
  return frequencies;
}

float rope_magnitude(const RopeScaling& scaling) {
  if (scaling.kind != RopeScaling::Kind::yarn || scaling.extrapolation == 0)
    return static_cast<float>(scaling.attention_factor);
  return static_cast<float>(scaling.attention_factor * (1 + 0.1 * std::log(scaling.factor)));
}

}  // namespace martlet
