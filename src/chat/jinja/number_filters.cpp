// Filters that make numbers.

#include <charconv>
#include <cmath>

#include "chat/jinja/interpreter.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/python_string.h"
#include "chat/jinja/represent.h"

namespace martlet::jinja {
namespace {

// Digits with single underscores between them, as int() and float() read them; nullopt when not.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const bool between = i > 0 && i + 1 < text.size() && std::isalnum(static_cast<unsigned char>(text[i - 1])) &&
                         std::isalnum(static_cast<unsigned char>(text[i + 1]));
    if (!between) return std::nullopt;
  }
  return out;
}

// Python's int(text, base). nullopt: not an integer.
std::optional<Integer> parse_integer(const Text& text, Integer base) {
  auto digits = without_underscores(strip(text, Side::both).view());
  if (!digits || (base != 0 && (base < 2 || base > 36))) return std::nullopt;
  const bool negative = !digits->empty() && digits->front() == '-';
  if (negative || (!digits->empty() && digits->front() == '+')) digits->erase(0, 1);
  const char letter = digits->size() > 1 && digits->front() == '0' ? static_cast<char>((*digits)[1] | 0x20) : '\0';
  const int prefixed = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (prefixed && (base == 0 || base == prefixed)) {
    digits->erase(0, 2);
    base = prefixed;
  }
  if (base == 0) base = 10;
  uint64_t magnitude = 0;
  const char* end = digits->data() + digits->size();
  const auto read = std::from_chars(digits->data(), end, magnitude, static_cast<int>(base));
  if (read.ec == std::errc::invalid_argument || read.ptr != end) return std::nullopt;
  if (read.ec != std::errc() || magnitude > static_cast<uint64_t>(INT64_MAX))
    exceed("an integer does not fit in 64 bits");
  return negative ? -static_cast<Integer>(magnitude) : static_cast<Integer>(magnitude);
}

std::optional<double> parse_number(const Text& text) {
  auto digits = without_underscores(strip(text, Side::both).view());
  if (!digits) return std::nullopt;
  const char* begin = digits->data() + (!digits->empty() && digits->front() == '+' ? 1 : 0);
  const char* end = digits->data() + digits->size();
  if (begin < end && begin > digits->data() && *begin == '-') return std::nullopt;
  double number = 0;
  const auto read = std::from_chars(begin, end, number);
  if (read.ptr != end || read.ec == std::errc::invalid_argument) return std::nullopt;
  if (read.ec == std::errc::result_out_of_range) {
    const bool tiny = digits->find("e-") != digits->npos || digits->find("E-") != digits->npos;
    number = tiny ? 0.0 : HUGE_VAL;
    return *begin == '-' ? -number : number;
  }
  return number;
}

Integer truncated(double number) {
  if (!(std::fabs(number) < 9223372036854775808.0)) exceed("an integer does not fit in 64 bits");
  return static_cast<Integer>(number);
}

Value integer(const Call& call) {
  const Value fallback = call.argument(0) ? *call.argument(0) : Value(0);
  if (call.self.undefined()) fail_undefined(*call.self.undefined());
  std::optional<double> number = call.self.number();
  if (const Text* text = call.self.text()) {
    if (const auto value = parse_integer(*text, call.integer(1, 10))) return *value;
    number = parse_number(*text);
  } else if (const auto value = call.self.integral()) {
    return *value;
  }
  if (!number || !std::isfinite(*number)) return fallback;
  return truncated(*number);
}

Value floating(const Call& call) {
  if (call.self.undefined()) fail_undefined(*call.self.undefined());
  const auto number = call.self.text() ? parse_number(*call.self.text()) : call.self.number();
  if (number) return *number;
  return call.argument(0) ? *call.argument(0) : Value(0.0);
}

Value absolute(const Call& call) {
  if (call.self.undefined()) fail_undefined(*call.self.undefined());
  if (const auto value = call.self.integral()) return *value < 0 ? negate(*value) : Value(*value);
  if (const auto* number = call.self.get<double>()) return std::fabs(*number);
  fail("abs() wants a number");
}

// Rounds half to even on the decimal digits that the float really has, as Python's round().
double round_to(double number, Integer precision) {
  if (!std::isfinite(number) || precision > 308) return number;
  if (precision < -308) return 0.0 * number;
  if (precision >= 0) {
    char buffer[700];
    const char* end =
        std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::fixed, static_cast<int>(precision))
            .ptr;
    double rounded = 0;
    std::from_chars(buffer, end, rounded);
    return rounded;
  }
  const double scale = std::pow(10.0, static_cast<double>(-precision));
  return std::nearbyint(number / scale) * scale;
}

// Half to even, among multiples of 10^-precision.
Integer round_integer(Integer value, Integer precision) {
  if (precision >= 0) return value;
  if (precision < -18) return 0;
  Integer scale = 1;
  for (; precision < 0; ++precision) scale *= 10;
  Integer rest = value % scale;
  if (rest < 0) rest += scale;
  Integer down = 0;
  if (__builtin_sub_overflow(value, rest, &down)) exceed("an integer does not fit in 64 bits");
  const bool up = rest > scale - rest || (rest == scale - rest && (down / scale) % 2 != 0);
  if (up && __builtin_add_overflow(down, scale, &down)) exceed("an integer does not fit in 64 bits");
  return down;
}

Value round_filter(const Call& call) {
  if (call.self.undefined()) fail_undefined(*call.self.undefined());
  const Text method = call.text(1, Text("common", true));
  const Integer precision = call.integer(0, 0);
  const auto number = call.self.number();
  if (!number) fail("round() wants a number");
  if (method.view() == "common") {
    if (const auto integer = call.self.integral()) return round_integer(*integer, precision);
    return round_to(*number, precision);
  }
  if (method.view() != "ceil" && method.view() != "floor") fail("round() knows the methods common, ceil and floor");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = *number * scale;
  const double whole = method.view() == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  return whole / scale;
}

Value sum(const Call& call) {
  Value total = call.argument(1) ? *call.argument(1) : Value(0);
  if (total.text()) fail("sum() cannot add strings");
  const bool by_attribute = !call.none(0);
  Arguments attribute;
  Value items = call.self;
  if (by_attribute) {
    attribute.named.emplace_back(Text("attribute", true), *call.argument(0));
    items = run_builtin(*find_filter("map"), call.interpreter, call.self, attribute);
  }
  for (const Value& item : items_of(items)) total = add(total, item);
  return total;
}

Value filesizeformat(const Call& call) {
  const Value bytes = floating(call);
  const double size = bytes.number().value_or(0), base = call.boolean(0, false) ? 1024 : 1000;
  if (size == 1) return make_text("1 Byte");
  if (size < base) return make_text(std::to_string(truncated(size)) + " Bytes");
  static constexpr std::string_view kLetters = "kMGTPEZY";
  double unit = base;
  for (size_t i = 0;; ++i) {
    unit *= base;
    if (size >= unit && i + 1 < kLetters.size()) continue;
    char digits[400];
    const char* const end =
        std::to_chars(digits, digits + sizeof digits, base * size / unit, std::chars_format::fixed, 1).ptr;
    const char letter = base == 1024 && i == 0 ? 'K' : kLetters[i];
    return make_text(std::string(digits, static_cast<size_t>(end - digits)) + " " + letter +
                     (base == 1024 ? "iB" : "B"));
  }
}

constexpr Builtin kFilters[] = {
    {"abs", {}, 0, absolute},
    {"filesizeformat", {"binary"}, 0, filesizeformat},
    {"float", {"default"}, 0, floating},
    {"int", {"default", "base"}, 0, integer},
    {"round", {"precision", "method"}, 0, round_filter},
    {"sum", {"attribute", "start"}, 0, sum},
};

}  // namespace

std::span<const Builtin> number_filters() {
  return kFilters;
}

}  // namespace martlet::jinja
