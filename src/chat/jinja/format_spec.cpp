#include "chat/jinja/format_spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "chat/jinja/python_string.h"
#include "chat/jinja/represent.h"

namespace martlet::jinja {
namespace {

constexpr Integer kMaxWidth = 1 << 24;   // beyond it, no render could hold the result
constexpr Integer kMaxPrecision = 1000;  // digits behind the point

Integer bounded(Integer value, Integer limit) {
  if (value > limit) exceed("a width or precision is too large");
  return value;
}

std::string print(double number, std::chars_format format, int precision, bool upper = false) {
  std::string out(static_cast<size_t>(precision) + 400, '\0');  // 309 digits before the point at most
  out.resize(static_cast<size_t>(std::to_chars(out.data(), out.data() + out.size(), number, format, precision).ptr -
                                 out.data()));
  if (upper) std::replace(out.begin(), out.end(), 'e', 'E');
  return out;
}

// Digits of a non-negative integer.
std::string digits_of(uint64_t value, unsigned base, bool upper) {
  std::string out;
  do {
    out.insert(out.begin(), (upper ? "0123456789ABCDEF" : "0123456789abcdef")[value % base]);
    value /= base;
  } while (value > 0);
  return out;
}

// Digits of a non-negative float.
std::string digits_of(const Spec& spec, double number) {
  if (!std::isfinite(number)) {
    const std::string name = std::isnan(number) ? "nan" : "inf";
    return spec.type == 'F' || spec.type == 'E' || spec.type == 'G' ? (std::isnan(number) ? "NAN" : "INF") : name;
  }
  if (spec.type == '\0' && !spec.precision) return represent_number(number);
  if (spec.alternate) fail("'#' is not supported for floats");
  const int precision = static_cast<int>(bounded(spec.precision.value_or(6), kMaxPrecision));
  switch (spec.type) {
    case 'e':
    case 'E':
      return print(number, std::chars_format::scientific, precision, spec.type == 'E');
    case 'f':
    case 'F':
      return print(number, std::chars_format::fixed, precision);
    case 'g':
    case 'n':
    case 'G':
      return print(number, std::chars_format::general, precision, spec.type == 'G');
    case '%':
      return print(number * 100, std::chars_format::fixed, precision) + "%";
    case '\0': {
      const std::string out = print(number, std::chars_format::general, precision);
      return out.find_first_of(".e") == out.npos ? out + ".0" : out;
    }
    default:
      fail("unknown format code for a float");
  }
}

std::string grouped(const std::string& digits, char separator, size_t every) {
  size_t whole = 0;
  const auto is_digit = [every](unsigned char c) { return every == 3 ? std::isdigit(c) : std::isxdigit(c); };
  while (whole < digits.size() && is_digit(static_cast<unsigned char>(digits[whole]))) ++whole;
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % every == 0) out += separator;
    out += digits[i];
  }
  return out + digits.substr(whole);
}

Text padded_number(const Spec& spec, bool negative, const std::string& prefix, std::string digits) {
  if (spec.grouping) {
    const bool decimal = prefix.empty() && spec.type != 'x' && spec.type != 'X' && spec.type != 'b' && spec.type != 'o';
    digits = grouped(digits, spec.grouping, decimal ? 3 : 4);
  }
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  const std::string lead = sign + prefix;
  if (spec.align != '=' && !(spec.zero && !spec.align)) return padded(spec, Text(lead + digits, false), '>');
  const Integer room = spec.width - static_cast<Integer>(lead.size());
  const Text body = pad(Text(digits, false), room, Text(spec.zero && !spec.align ? "0" : spec.fill, false), Side::left);
  return concatenate(Text(lead, false), body);
}

bool is_align(char c) {
  return c == '<' || c == '>' || c == '^' || c == '=';
}

}  // namespace

Integer bounded_width(Integer width) {
  return bounded(width, kMaxWidth);
}

std::optional<Integer> read_integer(std::string_view text, size_t& at) {
  if (at >= text.size() || text[at] < '0' || text[at] > '9') return std::nullopt;
  Integer value = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = bounded(value * 10 + (text[at] - '0'), kMaxWidth);
  }
  return value;
}

Text padded(const Spec& spec, const Text& text, char default_align) {
  const char align = spec.align ? spec.align : default_align;
  const Text fill(spec.fill, false);
  if (align == '^') {
    const Integer missing = spec.width - static_cast<Integer>(text.length());
    const Text left =
        pad(text, static_cast<Integer>(text.length()) + std::max(missing, Integer{0}) / 2, fill, Side::left);
    return pad(left, spec.width, fill, Side::right);
  }
  return pad(text, spec.width, fill, align == '<' ? Side::right : Side::left);
}

Text format_integer(Spec spec, Integer value) {
  if (spec.type == 'c') {
    if (value < 0 || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) fail("a character code is out of range");
    std::string character;
    utf8::append(character, static_cast<char32_t>(value));
    return padded(spec, Text(character, false), '<');
  }
  if (spec.type == 'e' || spec.type == 'E' || spec.type == 'f' || spec.type == 'F' || spec.type == 'g' ||
      spec.type == 'G' || spec.type == '%') {
    const double number = static_cast<double>(value);
    return padded_number(spec, value < 0, "", digits_of(spec, std::fabs(number)));
  }
  if (spec.precision) fail("a precision is not allowed for an integer");
  const bool known = spec.type == '\0' || std::string_view("dnboxX").find(spec.type) != std::string_view::npos;
  if (!known) fail("unknown format code for an integer");
  const unsigned base = spec.type == 'b' ? 2 : spec.type == 'o' ? 8 : spec.type == 'x' || spec.type == 'X' ? 16 : 10;
  const uint64_t magnitude = value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const std::string prefix = spec.alternate && base != 10 ? std::string("0") + spec.type : "";
  return padded_number(spec, value < 0, prefix, digits_of(magnitude, base, spec.type == 'X'));
}

Text format_text(const Spec& spec, const Text& text) {
  if ((spec.type != '\0' && spec.type != 's') || spec.sign != '-' || spec.alternate || spec.grouping ||
      spec.align == '=') {
    fail("invalid format specification for a string");
  }
  Spec filled = spec;
  if (spec.zero && !spec.align) filled.fill = "0";
  if (!spec.precision) return padded(filled, text, '<');
  return padded(filled, slice(text, slice_range(text.length(), 0, *spec.precision, 1)), '<');
}

Text format_value(const Spec& spec, const Value& value) {
  if (const Text* text = value.text()) return format_text(spec, *text);
  if (const auto integer = value.integral()) return format_integer(spec, *integer);
  if (const auto* number = value.get<double>()) {
    return padded_number(spec, std::signbit(*number) && !std::isnan(*number), "", digits_of(spec, std::fabs(*number)));
  }
  fail("this type of value takes no format specification");
}

Spec parse_spec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  const auto peek = [&](size_t offset) { return offset < text.size() ? text[offset] : '\0'; };
  const size_t first = text.empty() ? 0 : utf8::decode(text, 0).length;
  const bool filled = first > 0 && is_align(peek(first));
  if (filled) {
    spec.fill = std::string(text.substr(0, first));
    spec.align = text[first];
    at = first + 1;
  } else if (is_align(peek(0))) {
    spec.align = text[at++];
  }
  if (peek(at) == '+' || peek(at) == '-' || peek(at) == ' ') spec.sign = text[at++];
  if (peek(at) == '#') spec.alternate = (++at, true);
  if (peek(at) == '0') {
    spec.zero = (++at, true);
    if (spec.align && !filled) spec.fill = "0";
  }
  spec.width = read_integer(text, at).value_or(0);
  if (peek(at) == ',' || peek(at) == '_') spec.grouping = text[at++];
  if (peek(at) == '.') {
    spec.precision = read_integer(text, ++at);
    if (!spec.precision) fail("a precision is missing in a format specification");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) fail("invalid format specification");
  return spec;
}

}  // namespace martlet::jinja
