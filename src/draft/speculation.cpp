#include "martlet/speculation.h"

#include <charconv>

#include <fmt/format.h>

namespace martlet {

Result<Speculation> parse_speculation(std::string_view text) {
  if (text == "auto") return Speculation{};
  if (text == "window") return Speculation{Speculation::Mode::window};
  if (text == "off") return Speculation{Speculation::Mode::off};
  constexpr std::string_view kFixed = "fixed:";
  Speculation fixed{Speculation::Mode::fixed};
  if (text.starts_with(kFixed)) {
    text.remove_prefix(kFixed.size());
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), fixed.length);
    if (ec == std::errc() && end == text.data() + text.size() && fixed.length >= 1 && fixed.length <= kMaxDraft)
      return fixed;
  }
  return Error{ErrorKind::request, "invalid_value",
               fmt::format("must be auto, window, off, or fixed:K with K from 1 to {}", kMaxDraft), ""};
}

}  // namespace martlet
