#include "gateway/config_keys.h"

#include <cmath>
#include <cstdlib>

namespace martlet::gateway::keys {

Result<std::string> text_of(const ConfigNode& node, const Place& place) {
  const boost::json::value* value = node.scalar();
  if (!value || !value->is_string()) return place.error("must be a string");
  const std::string text(value->as_string());
  const bool clean = std::all_of(text.begin(), text.end(), [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
  if (!clean) return place.error("must not hold control characters");
  return text;
}

Result<double> number_of(const ConfigNode& node, const Place& place, double low, double high) {
  const boost::json::value* value = node.scalar();
  boost::json::error_code ec;
  const double number = value && value->is_number() ? value->to_number<double>(ec) : NAN;
  if (ec || !(number >= low && number <= high)) {
    char text[96];
    std::snprintf(text, sizeof text, "must be a number from %g to %g", low, high);
    return place.error(text);
  }
  return number;
}

Result<int64_t> integer_of(const ConfigNode& node, const Place& place, int64_t low, int64_t high) {
  const boost::json::value* value = node.scalar();
  const auto error = [&] {
    return place.error("must be an integer from " + std::to_string(low) + " to " + std::to_string(high));
  };
  if (!value || !(value->is_int64() || value->is_uint64())) return error();
  boost::json::error_code ec;
  const int64_t number = value->to_number<int64_t>(ec);
  if (ec || number < low || number > high) return error();
  return number;
}

// 1073741824, "1GiB", "800MB".
Result<int64_t> bytes_of(const ConfigNode& node, const Place& place) {
  if (const auto* value = node.scalar(); value && value->is_number()) return integer_of(node, place, 0, kMaxBytes);
  MARTLET_ASSIGN(const std::string text, text_of(node, place));
  constexpr std::pair<const char*, double> kUnits[] = {{"B", 1},
                                                       {"KB", 1e3},
                                                       {"MB", 1e6},
                                                       {"GB", 1e9},
                                                       {"KiB", 1024.0},
                                                       {"MiB", 1024.0 * 1024},
                                                       {"GiB", 1024.0 * 1024 * 1024}};
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  while (*end == ' ') ++end;
  for (const auto& [unit, factor] : kUnits) {
    const double bytes = number * factor;
    if (end != text.c_str() && std::string_view(end) == unit && bytes >= 0 && bytes <= double(kMaxBytes)) {
      return static_cast<int64_t>(bytes);
    }
  }
  return place.error("must be a number of bytes, such as 800MB or 6GiB");
}

// A secret, or "env:NAME" for the value of that variable.
Result<std::string> secret_of(const ConfigNode& node, const Place& place) {
  MARTLET_ASSIGN(std::string text, text_of(node, place));
  if (text.starts_with("env:")) {
    const char* value = std::getenv(text.c_str() + 4);
    if (!value || !*value) return place.error("the environment does not have this variable");
    text = value;
  }
  const bool clean = std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  if (text.empty() || !clean) return place.error("a key must be printable ASCII without blanks, and not empty");
  return text;
}

}  // namespace martlet::gateway::keys
