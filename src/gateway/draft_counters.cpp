#include "gateway/draft_counters.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

namespace martlet::gateway {
namespace {

struct Names {
  std::string_view drafted, accepted;
};
constexpr Names kNames[] = {
    {"vllm:spec_decode_num_draft_tokens_total", "vllm:spec_decode_num_accepted_tokens_total"},
};

constexpr double kMost = 0x1p53;  // what a double counts to one by one; no runtime gets there

// The value of `name{labels} value [time]`; nullopt when the line is another series.
std::optional<double> value_of(std::string_view line, std::string_view name) {
  if (!line.starts_with(name)) return std::nullopt;
  line.remove_prefix(name.size());
  if (line.starts_with('{')) {
    const size_t end = line.rfind('}');
    if (end == line.npos) return std::nullopt;
    line.remove_prefix(end + 1);
  }
  if (!line.starts_with(' ')) return std::nullopt;
  const double value = std::strtod(std::string(line).c_str(), nullptr);
  return std::isfinite(value) && value >= 0 ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<DraftCounters> read_draft_counters(std::string_view metrics) {
  std::optional<DraftCounters> out;
  for (const Names& names : kNames) {
    for (size_t at = 0; at < metrics.size();) {
      const size_t end = std::min(metrics.find('\n', at), metrics.size());
      const std::string_view line = metrics.substr(at, end - at);
      at = end + 1;
      const std::optional<double> drafted = value_of(line, names.drafted), accepted = value_of(line, names.accepted);
      if (!drafted && !accepted) continue;
      if (!out) out.emplace();
      out->drafted += drafted.value_or(0);
      out->accepted += accepted.value_or(0);
    }
  }
  if (out && (out->drafted > kMost || out->accepted > kMost)) return std::nullopt;
  return out;
}

}  // namespace martlet::gateway
