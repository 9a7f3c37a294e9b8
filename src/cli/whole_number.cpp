#include "cli/whole_number.h"

#include <charconv>
#include <string>

namespace martlet::cli {

CLI::Validator whole_number(uint64_t least, uint64_t most) {
  const std::string range = std::to_string(least) + " to " + std::to_string(most);
  const auto check = [=](const std::string& text) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    return whole && value >= least && value <= most ? std::string() : "must be a whole number from " + range;
  };
  return CLI::Validator(check, "");
}

}  // namespace martlet::cli
