#include "chat/jinja/format.h"
#include "chat/jinja/format_spec.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/represent.h"

namespace martlet::jinja {
namespace {

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
    (name.empty() ? automatic_ : index ? numbered_ : named_) = true;
    if (automatic_ && numbered_) fail("numbered and automatic fields cannot be mixed");
    if (name.empty()) index = next_++;
    if (index) {
      if (static_cast<size_t>(*index) >= arguments_.positional.size()) fail("a format string wants more arguments");
      return arguments_.positional[static_cast<size_t>(*index)];
    }
    for (const auto& [given, value] : arguments_.named) {
      if (given.view() == name) return value;
    }
    fail("a format string names an argument that is not given");
  }

  Interpreter& interpreter_;
  const Arguments& arguments_;
  Integer next_ = 0;
  bool automatic_ = false, numbered_ = false, named_ = false;  // the kinds of fields seen
};

}  // namespace

Text string_format(Interpreter& interpreter, const Text& format, const Arguments& arguments) {
  return Format(interpreter, arguments).run(format, 0);
}

}  // namespace martlet::jinja
