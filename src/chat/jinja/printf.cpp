#include <cmath>

#include "chat/jinja/format.h"
#include "chat/jinja/format_spec.h"
#include "chat/jinja/python_string.h"
#include "chat/jinja/represent.h"

namespace martlet::jinja {
namespace {

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
    return bounded_width(*size);
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
      case 's':
        return write_text(spec, to_text(value));
      case 'r':
      case 'a': {
        TextBuilder text;
        represent(value, text);
        return write_text(spec, text.take());
      }
      case 'c':
        return write_character(spec, value);
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        return write_integer(spec, type, value);
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
      default:
        fail("unsupported format character");
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

}  // namespace

Text printf_format(const Text& format, const Value& values) {
  return Printf(format, values).run();
}

}  // namespace martlet::jinja
