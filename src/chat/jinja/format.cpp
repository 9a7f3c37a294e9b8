#include "chat/jinja/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/python_string.h"
#include "chat/jinja/represent.h"

namespace martlet::jinja {
namespace {

constexpr Integer kMaxWidth = 1 << 24;     // beyond it, no render could hold the result
constexpr Integer kMaxPrecision = 1000;    // digits behind the point

// How one value is to be written; both languages of formatting end here.
struct Spec {
  std::string fill = " ";
  char align = '\0';     // < > ^, or = for padding between sign and digits
  char sign = '-';       // +, space, or - for negative numbers only
  bool alternate = false, zero = false;
  char grouping = '\0';  // , or _
  Integer width = 0;
  std::optional<Integer> precision;
  char type = '\0';
};

Integer bounded(Integer value, Integer limit) {
  if (value > limit) exceed("a width or precision is too large");
  return value;
}

// Reads digits at text[at]; nullopt when there are none.
std::optional<Integer> read_integer(std::string_view text, size_t& at) {
  if (at >= text.size() || text[at] < '0' || text[at] > '9') return std::nullopt;
  Integer value = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = bounded(value * 10 + (text[at] - '0'), kMaxWidth);
  }
  return value;
}

std::string print(double number, std::chars_format format, int precision, bool upper = false) {
  std::string out(static_cast<size_t>(precision) + 400, '\0');  // 309 digits before the point at most
  out.resize(static_cast<size_t>(std::to_chars(out.data(), out.data() + out.size(), number, format, precision).ptr - out.data()));
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
    case 'E': return print(number, std::chars_format::scientific, precision, spec.type == 'E');
    case 'f':
    case 'F': return print(number, std::chars_format::fixed, precision);
    case 'g':
    case 'n':
    case 'G': return print(number, std::chars_format::general, precision, spec.type == 'G');
    case '%': return print(number * 100, std::chars_format::fixed, precision) + "%";
    case '\0': {
      const std::string out = print(number, std::chars_format::general, precision);
      return out.find_first_of(".e") == out.npos ? out + ".0" : out;
    }
    default: fail("unknown format code for a float");
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

Text padded(const Spec& spec, const Text& text, char default_align) {
  const char align = spec.align ? spec.align : default_align;
  const Text fill(spec.fill, false);
  if (align == '^') {
    const Integer missing = spec.width - static_cast<Integer>(text.length());
    const Text left = pad(text, static_cast<Integer>(text.length()) + std::max(missing, Integer{0}) / 2, fill, Side::left);
    return pad(left, spec.width, fill, Side::right);
  }
  return pad(text, spec.width, fill, align == '<' ? Side::right : Side::left);
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
  if ((spec.type != '\0' && spec.type != 's') || spec.sign != '-' || spec.alternate || spec.grouping || spec.align == '=') {
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

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

// [[fill]align][sign][#][0][width][grouping][.precision][type]
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

// "%..." formatting.
class Printf {
 public:
  Printf(const Text& format, const Value& values) : format_(format), text_(format.view()), values_(values) {
    const Sequence* tuple = values.sequence(Sequence::Kind::tuple);
    if (tuple) {
      items_ = tuple->items;
    } else {
      items_.push_back(values);
    }
  }

  Text run() {
    for (size_t mark = find(text_, "%"); mark != text_.npos; mark = find(text_, "%", at_)) {
      out_.append(format_.slice(at_, mark));
      at_ = mark + 1;
      convert();
    }
    out_.append(format_.slice(at_, text_.size()));
    // A dict may have entries that the format does not name; a tuple may not.
    if (!mapping_ && used_ < items_.size() && !values_.dict()) fail("not all arguments were used in string formatting");
    return out_.take();
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  const Value& next() {
    if (used_ >= items_.size()) fail("not enough arguments for the format string");
    return items_[used_++];
  }

  std::optional<Integer> read_size() {
    if (peek() != '*') return read_integer(text_, at_);
    ++at_;
    const auto size = next().integral();
    if (!size) fail("'*' in a format wants an integer");
    return bounded(*size, kMaxWidth);
  }

  Value select() {
    if (peek() != '(') return {};
    const size_t close = text_.find(')', at_);
    if (close == text_.npos) fail("incomplete key in a format string");
    const Value* value = need_dict(values_).find(text_.substr(at_ + 1, close - at_ - 1));
    if (!value) fail("a format string names a key that the dict does not have");
    at_ = close + 1;
    mapping_ = true;
    return *value;
  }

  void convert() {
    const bool keyed = peek() == '(';
    const Value selected = select();
    Spec spec;
    bool left = false;
    for (; std::string_view("-+ #0").find(peek()) != std::string_view::npos && peek(); ++at_) {
      left |= peek() == '-';
      spec.alternate |= peek() == '#';
      spec.zero |= peek() == '0';
      if (peek() == '+' || (peek() == ' ' && spec.sign != '+')) spec.sign = peek();
    }
    if (const auto width = read_size()) {
      left |= *width < 0;
      spec.width = std::abs(*width);
    }
    if (peek() == '.') {
      ++at_;
      spec.precision = std::max(read_size().value_or(0), Integer{0});
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    const char type = peek();
    if (type == '\0') fail("incomplete format");
    ++at_;
    if (type == '%') return out_.append(format_.slice(at_ - 1, at_));
    if (left) {
      spec.align = '<';
      spec.zero = false;
    }
    write(spec, type, keyed ? selected : next());
  }

  void write(Spec spec, char type, const Value& value) {
    switch (type) {
      case 's': return write_text(spec, to_text(value));
      case 'r':
      case 'a': {
        TextBuilder text;
        represent(value, text);
        return write_text(spec, text.take());
      }
      case 'c': return write_character(spec, value);
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X': return write_integer(spec, type, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': {
        const auto number = value.number();
        if (!number) fail("a number is wanted by the format string");
        spec.type = type;
        return out_.append(format_value(spec, *number));
      }
      default: fail("unsupported format character");
    }
  }

  void write_text(Spec spec, const Text& text) {
    spec.sign = '-';
    spec.alternate = spec.zero = false;
    if (!spec.align) spec.align = '>';
    out_.append(format_text(spec, text));
  }

  void write_character(Spec spec, const Value& value) {
    spec.precision.reset();
    if (const Text* text = value.text()) {
      if (text->length() != 1) fail("%c wants one character");
      return write_text(spec, *text);
    }
    const auto code = value.integral();
    if (!code) fail("%c wants an integer or a character");
    spec.type = 'c';
    if (!spec.align) spec.align = '>';
    out_.append(format_integer(spec, *code));
  }

  void write_integer(Spec spec, char type, const Value& value) {
    const auto* number = value.get<double>();
    const bool decimal = type == 'd' || type == 'i' || type == 'u';
    if (number && (!decimal || !(std::fabs(*number) < 9.2e18))) fail("an integer is wanted by the format string");
    const auto integer = number ? static_cast<Integer>(*number) : value.integral();
    if (!integer) fail("a number is wanted by the format string");
    spec.type = decimal ? 'd' : type;
    if (!spec.precision) return out_.append(format_integer(spec, *integer));
    Spec inner;  // the precision of an integer is its least number of digits
    inner.type = spec.type;
    inner.sign = spec.sign;
    inner.alternate = spec.alternate;
    inner.zero = true;
    inner.width = *spec.precision + (*integer < 0 || spec.sign != '-' ? 1 : 0) + (spec.alternate && !decimal ? 2 : 0);
    Spec outer;
    outer.width = spec.width;
    outer.align = spec.align ? spec.align : '>';
    out_.append(padded(outer, format_integer(inner, *integer), '>'));
  }

  const Text& format_;
  const std::string_view text_;
  const Value& values_;
  Items items_;
  size_t at_ = 0, used_ = 0;
  bool mapping_ = false;
  TextBuilder out_;
};

// "{...}".format(...)
class Format {
 public:
  Format(Interpreter& interpreter, const Arguments& arguments) : interpreter_(interpreter), arguments_(arguments) {}

  Text run(const Text& format, int depth) {
    if (depth > 2) fail("a format string is nested too deeply");
    TextBuilder out;
    const std::string_view text = format.view();
    for (size_t at = 0; at < text.size();) {
      const size_t mark = text.find_first_of("{}", at);
      if (mark == text.npos) {
        out.append(format.slice(at, text.size()));
        break;
      }
      const bool doubled = mark + 1 < text.size() && text[mark + 1] == text[mark];
      out.append(format.slice(at, mark + (doubled ? 1 : 0)));
      if (doubled) {
        at = mark + 2;
        continue;
      }
      if (text[mark] == '}') fail("a single '}' stands in a format string");
      const size_t end = field_end(text, mark + 1);
      out.append(field(format.slice(mark + 1, end), depth));
      at = end + 1;
    }
    return out.take();
  }

 private:
  static size_t field_end(std::string_view text, size_t at) {
    for (int open = 1; at < text.size(); ++at) {
      if (text[at] == '{') ++open;
      if (text[at] == '}' && --open == 0) return at;
    }
    fail("a '{' is not closed in a format string");
  }

  // name [!conversion] [:specification]
  Text field(const Text& text, int depth) {
    const std::string_view view = text.view();
    size_t at = 0;
    for (bool bracket = false; at < view.size() && (bracket || (view[at] != '!' && view[at] != ':')); ++at) {
      if (view[at] == '[') bracket = true;
      if (view[at] == ']') bracket = false;
    }
    Value value = lookup(text.slice(0, at));
    if (at < view.size() && view[at] == '!') {
      const char conversion = at + 1 < view.size() ? view[at + 1] : '\0';
      if (conversion != 's' && conversion != 'r' && conversion != 'a') fail("unknown conversion in a format string");
      value = converted(value, conversion);
      at += 2;
      if (at < view.size() && view[at] != ':') fail("':' is expected after a conversion in a format string");
    }
    if (at >= view.size()) return to_text(value);
    const Text specification = run(text.slice(at + 1, view.size()), depth + 1);
    if (specification.empty()) return to_text(value);
    return format_value(parse_spec(specification.view()), value);
  }

  static Value converted(const Value& value, char conversion) {
    if (conversion == 's') return to_text(value);
    TextBuilder out;
    represent(value, out);
    return out.take();
  }

  // first ( .attribute | [index] )*
  Value lookup(const Text& path) {
    const std::string_view view = path.view();
    size_t at = std::min(view.find_first_of(".["), view.size());
    Value value = first(view.substr(0, at));
    while (at < view.size()) {
      const bool attribute = view[at] == '.';
      const size_t end = attribute ? std::min(view.find_first_of(".[", at + 1), view.size()) : view.find(']', at);
      if (end == view.npos || (!attribute && view[at] != '[')) fail("a format string has an invalid field name");
      const Text name = path.slice(at + 1, end);
      if (name.empty()) fail("a format string has an empty attribute");
      size_t digits = 0;
      const auto index = read_integer(name.view(), digits);
      value = attribute ? interpreter_.attribute(value, name)
                        : interpreter_.item(value, index && digits == name.size() ? Value(*index) : Value(name));
      at = end + (attribute ? 0 : 1);
    }
    return value;
  }

  Value first(std::string_view name) {
    size_t digits = 0;
    auto index = read_integer(name, digits);
    if (index && digits != name.size()) index.reset();
    if (name.empty()) index = automatic_++;
    if (index) {
      if (static_cast<size_t>(*index) >= arguments_.positional.size()) fail("a format string wants more arguments");
      if (!name.empty() && automatic_ > 0) fail("numbered and automatic fields cannot be mixed");
      return arguments_.positional[static_cast<size_t>(*index)];
    }
    for (const auto& [given, value] : arguments_.named) {
      if (given.view() == name) return value;
    }
    fail("a format string names an argument that is not given");
  }

  Interpreter& interpreter_;
  const Arguments& arguments_;
  Integer automatic_ = 0;
};

}  // namespace

Text printf_format(const Text& format, const Value& values) { return Printf(format, values).run(); }

Text string_format(Interpreter& interpreter, const Text& format, const Arguments& arguments) {
  return Format(interpreter, arguments).run(format, 0);
}

}  // namespace martlet::jinja
