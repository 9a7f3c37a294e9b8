#include "bench/measurement.h"

#include <algorithm>
#include <limits>

namespace martlet::bench {

double ttft(const Measurement& m) {
  return m.first_token - m.sent;
}

double queued_ttft(const Measurement& m) {
  return m.first_token - m.offered;
}

double tpot(const Measurement& m) {
  return m.output_tokens > 1 ? (m.last_token - m.first_token) / (m.output_tokens - 1) : 0;
}

double effective_rate(const Measurement& m) {
  const double whole = m.last_token - m.sent;
  return whole > 0 ? m.output_tokens / whole : 0;
}

double wall_time(const std::vector<Measurement>& all) {
  double first = std::numeric_limits<double>::max(), last = 0;
  for (const Measurement& m : all) {
    if (!m.ok()) continue;
    first = std::min(first, m.offered);
    last = std::max(last, m.last_token);
  }
  return std::max(0.0, last - first);
}

double aggregate_rate(const std::vector<Measurement>& all) {
  double tokens = 0;
  for (const Measurement& m : all)
    if (m.ok()) tokens += m.output_tokens;
  const double time = wall_time(all);
  return time > 0 ? tokens / time : 0;
}

Figures figures(const std::vector<Measurement>& all) {
  const auto summary_of = [&](double (*figure)(const Measurement&)) {
    std::vector<double> values;
    for (const Measurement& m : all)
      if (m.ok()) values.push_back(figure(m));
    return summarize(values);
  };
  Figures out{summary_of(ttft), summary_of(queued_ttft), summary_of(tpot), summary_of(effective_rate)};
  out.aggregate_rate = aggregate_rate(all);
  out.failed = static_cast<int>(std::count_if(all.begin(), all.end(), [](const Measurement& m) { return !m.ok(); }));
  return out;
}

}  // namespace martlet::bench
