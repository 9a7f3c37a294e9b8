#pragma once

// How one value is to be written in a given width: what both languages of formatting come down to.

#include <optional>
#include <string>
#include <string_view>

#include "chat/jinja/value.h"

namespace martlet::jinja {

struct Spec {
  std::string fill = " ";
  char align = '\0';  // < > ^, or = for padding between sign and digits
  char sign = '-';    // +, space, or - for negative numbers only
  bool alternate = false, zero = false;
  char grouping = '\0';  // , or _
  Integer width = 0;
  std::optional<Integer> precision;
  char type = '\0';
};

// [[fill]align][sign][#][0][width][grouping][.precision][type], as str.format has it.
Spec parse_spec(std::string_view text);

// Fail when the specification does not suit the value.
Text format_value(const Spec& spec, const Value& value);
Text format_text(const Spec& spec, const Text& text);
Text format_integer(Spec spec, Integer value);
// Fills up to the width. `default_align` where the specification has none.
Text padded(const Spec& spec, const Text& text, char default_align);

// A width or precision; past what any render could hold: template_limit.
Integer bounded_width(Integer width);
// Reads digits at text[at]; nullopt when there are none.
std::optional<Integer> read_integer(std::string_view text, size_t& at);

}  // namespace martlet::jinja
