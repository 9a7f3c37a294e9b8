#include "sample/parameters.h"

#include <cmath>
#include <limits>

namespace martlet {
namespace {

struct Range {
  const char* field;
  float SamplingParameters::*value;
  float low, high;
  bool low_allowed;
  const char* text;
};

constexpr Range kRanges[] = {
    {"temperature", &SamplingParameters::temperature, 0, 100, true, "must be between 0 and 100"},
    {"top_p", &SamplingParameters::top_p, 0, 1, true, "must be between 0 and 1"},
    {"min_p", &SamplingParameters::min_p, 0, 1, true, "must be between 0 and 1"},
    {"typical_p", &SamplingParameters::typical_p, 0, 1, true, "must be between 0 and 1"},
    {"repetition_penalty", &SamplingParameters::repetition_penalty, 0, 100, false, "must be above 0 and at most 100"},
    {"presence_penalty", &SamplingParameters::presence_penalty, -100, 100, true, "must be between -100 and 100"},
    {"frequency_penalty", &SamplingParameters::frequency_penalty, -100, 100, true, "must be between -100 and 100"},
};

Error invalid(const char* field, const char* text) {
  return {ErrorKind::request, "invalid_value", text, field};
}

}  // namespace

Status validate(const SamplingParameters& parameters, int32_t vocabulary) {
  for (const Range& range : kRanges) {
    const float value = parameters.*range.value;
    // Written so that NaN fails.
    if (!(value <= range.high && (range.low_allowed ? value >= range.low : value > range.low)))
      return invalid(range.field, range.text);
  }
  if (parameters.top_k < 0) return invalid("top_k", "must be 0 (off) or more");
  for (const auto& [token, bias] : parameters.logit_bias) {
    if (token < 0 || token >= vocabulary) return invalid("logit_bias", "a token id lies outside the vocabulary");
    const bool bans = bias == -std::numeric_limits<float>::infinity();
    if (!bans && !(std::abs(bias) <= 1000))
      return invalid("logit_bias", "a bias must be between -1000 and 1000, or -infinity");
  }
  return {};
}

}  // namespace martlet
