#include "server/duration.h"

#include <charconv>
#include <cmath>

namespace martlet::server {

std::optional<std::chrono::duration<double>> parse_duration(std::string_view text) {
  constexpr double kLongest = 1e9;  // thirty years, in seconds
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const double factor = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (error != std::errc() || factor == 0 || !std::isfinite(value) || value * factor > kLongest) return std::nullopt;
  return std::chrono::duration<double>(value < 0 ? -1 : value * factor);
}

}  // namespace martlet::server
