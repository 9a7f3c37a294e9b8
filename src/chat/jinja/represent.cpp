#include "chat/jinja/represent.h"

#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "chat/jinja/python_string.h"

namespace martlet::jinja {
namespace {

void append_hex(TextBuilder& out, std::string_view prefix, char32_t value, int digits) {
  std::string hex(prefix);
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) hex += "0123456789abcdef"[(value >> shift) & 15];
  out.append(hex, false);
}

void represent_text(const Text& text, TextBuilder& out) {
  const std::string_view bytes = text.view();
  work(units_of(bytes.size()));
  const bool single = bytes.find('\'') == bytes.npos || bytes.find('"') != bytes.npos;
  const std::string_view quote = single ? "'" : "\"";
  out.append(quote, false);
  for (size_t at = 0; at < bytes.size();) {
    const utf8::Decoded decoded = utf8::decode(bytes, at);
    const char32_t c = decoded.codepoint;
    const std::string_view raw = bytes.substr(at, decoded.length);
    if (raw == quote || c == '\\') {
      out.append("\\", false);
      out.append(raw, false);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out.append(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t", false);
    } else if (decoded.valid && !is_printable(c)) {
      if (c < 0x100)
        append_hex(out, "\\x", c, 2);
      else if (c < 0x10000)
        append_hex(out, "\\u", c, 4);
      else
        append_hex(out, "\\U", c, 8);
    } else {
      out.append(raw, false);
    }
    at += decoded.length;
  }
  out.append(quote, false);
}

void represent_items(const Items& items, std::string_view open, std::string_view close, TextBuilder& out) {
  out.append(open, false);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ", false);
    represent(items[i], out);
  }
  out.append(close, false);
}

void represent_sequence(const Sequence& sequence, TextBuilder& out) {
  switch (sequence.kind) {
    case Sequence::Kind::list:
      return represent_items(sequence.items, "[", "]", out);
    case Sequence::Kind::tuple:
      return represent_items(sequence.items, "(", sequence.items.size() == 1 ? ",)" : ")", out);
    case Sequence::Kind::keys:
      return represent_items(sequence.items, "dict_keys([", "])", out);
    case Sequence::Kind::values:
      return represent_items(sequence.items, "dict_values([", "])", out);
    case Sequence::Kind::items:
      return represent_items(sequence.items, "dict_items([", "])", out);
    case Sequence::Kind::iterator: {
      out.append("<", false);
      out.append(sequence.generator, false);
      return out.append(" object>", false);
    }
    case Sequence::Kind::range: {
      const auto [start, stop, step] = sequence.range;
      std::string text = "range(" + std::to_string(start) + ", " + std::to_string(stop);
      if (step != 1) text += ", " + std::to_string(step);
      return out.append(text + ")", false);
    }
  }
}

void represent_dict(const Dict& dict, TextBuilder& out) {
  out.append("{", false);
  bool first = true;
  for (const auto& [key, value] : dict.entries()) {
    if (!std::exchange(first, false)) out.append(", ", false);
    represent(key, out);
    out.append(": ", false);
    represent(value, out);
  }
  out.append("}", false);
}

}  // namespace

std::string represent_number(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  int exponent = 0;
  const size_t digits_at = e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(text.data() + digits_at, text.data() + text.size(), exponent);
  // Python writes an exponent below -4 and from 16 on.
  if (exponent < -4 || exponent >= 16) return std::string(text);
  std::string digits, out(text[0] == '-' ? "-" : "");
  for (const char c : text.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

void represent(const Value& value, TextBuilder& out) {
  check_stack();
  work();
  if (const Text* text = value.text()) {
    if (text->markup()) out.append("Markup(", false);
    represent_text(*text, out);
    if (text->markup()) out.append(")", false);
  } else if (value.undefined()) {
    out.append("Undefined", false);
  } else if (value.none()) {
    out.append("None", false);
  } else if (const auto* boolean = value.get<bool>()) {
    out.append(*boolean ? "True" : "False", false);
  } else if (const auto* integer = value.get<Integer>()) {
    out.append(std::to_string(*integer), false);
  } else if (const auto* number = value.get<double>()) {
    out.append(represent_number(*number), false);
  } else if (const Sequence* sequence = value.sequence()) {
    represent_sequence(*sequence, out);
  } else if (const Dict* dict = value.dict()) {
    represent_dict(*dict, out);
  } else {
    value.object()->represent(out);
  }
}

Text to_text(const Value& value) {
  if (const Text* text = value.text()) return text->with_markup(false);
  if (value.undefined()) return {};
  TextBuilder out;
  represent(value, out);
  return out.take();
}

}  // namespace martlet::jinja
