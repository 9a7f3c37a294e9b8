#include <utf8proc.h>

#include <utility>

#include "base/utf8.h"
#include "chat/jinja/python_string.h"

namespace martlet::jinja {
namespace {

// Upper case forms of more than one code point (Unicode's SpecialCasing, without the Greek iota forms).
struct FullUpper {
  char32_t from;
  std::u32string_view upper, title;
};
constexpr FullUpper kFullUpper[] = {
    {0x00df, U"SS", U"Ss"},           {0x0149, U"\u02bcN", U"\u02bcN"},
    {0x01f0, U"J\u030c", U"J\u030c"}, {0x0587, U"\u0535\u0552", U"\u0535\u0582"},
    {0x1e96, U"H\u0331", U"H\u0331"}, {0x1e97, U"T\u0308", U"T\u0308"},
    {0x1e98, U"W\u030a", U"W\u030a"}, {0x1e99, U"Y\u030a", U"Y\u030a"},
    {0x1e9a, U"A\u02be", U"A\u02be"}, {0xfb00, U"FF", U"Ff"},
    {0xfb01, U"FI", U"Fi"},           {0xfb02, U"FL", U"Fl"},
    {0xfb03, U"FFI", U"Ffi"},         {0xfb04, U"FFL", U"Ffl"},
    {0xfb05, U"ST", U"St"},           {0xfb06, U"ST", U"St"},
};

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool cased(char32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL || kind == UTF8PROC_CATEGORY_LT;
}

enum class Case { upper, lower, title };

void append_cased(TextBuilder& out, char32_t c, bool trusted, Case to) {
  if (c < 0x80) {
    const bool letter = to == Case::lower ? c >= 'A' && c <= 'Z' : c >= 'a' && c <= 'z';
    out.append(letter ? c ^ 0x20 : c, trusted);
    return;
  }
  const auto codepoint = static_cast<utf8proc_int32_t>(c);
  if (to == Case::lower) {
    if (c == 0x130) return out.append("i\u0307", trusted);
    return out.append(static_cast<char32_t>(utf8proc_tolower(codepoint)), trusted);
  }
  for (const FullUpper& full : kFullUpper) {
    if (full.from != c) continue;
    for (const char32_t part : to == Case::upper ? full.upper : full.title) out.append(part, trusted);
    return;
  }
  const auto mapped = to == Case::upper ? utf8proc_toupper(codepoint) : utf8proc_totitle(codepoint);
  out.append(static_cast<char32_t>(mapped), trusted);
}

// A Greek capital sigma that ends a word becomes a final sigma.
bool is_final_sigma(std::string_view text, size_t at) {
  bool before = false;
  if (at > 0) {
    size_t previous = at - 1;
    while (previous > 0 && (static_cast<unsigned char>(text[previous]) & 0xc0) == 0x80) --previous;
    before = cased(utf8::decode(text, previous).codepoint);
  }
  const size_t next = at + 2;
  return before && (next >= text.size() || !cased(utf8::decode(text, next).codepoint));
}

// Maps every code point; choose(codepoint) tells the case.
template <class Choose>
Text map_case(const Text& text, Choose choose) {
  TextBuilder out;
  out.reserve(text.size());
  const std::string_view whole = text.view();
  text.for_each_run([&](std::string_view bytes, bool trusted) {
    for (size_t at = 0; at < bytes.size();) {
      const utf8::Decoded decoded = utf8::decode(bytes, at);
      if ((at & 63) == 0) work();
      const Case to = choose(decoded.codepoint);
      if (!decoded.valid) {
        out.append(bytes.substr(at, decoded.length), trusted);
      } else if (decoded.codepoint == 0x3a3 && to == Case::lower) {
        const size_t offset = static_cast<size_t>(bytes.data() + at - whole.data());
        out.append(char32_t{is_final_sigma(whole, offset) ? U'\u03c2' : U'\u03c3'}, trusted);
      } else {
        append_cased(out, decoded.codepoint, trusted, to);
      }
      at += decoded.length;
    }
  });
  return out.take().with_markup(text.markup());
}

// Calls visit(codepoint) until it returns false.
template <class Visit>
void for_each_codepoint(std::string_view text, Visit visit) {
  work(units_of(text.size()));
  for (size_t at = 0; at < text.size();) {
    const utf8::Decoded decoded = utf8::decode(text, at);
    if (!visit(decoded.codepoint)) return;
    at += decoded.length;
  }
}

bool is_upper_letter(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU;
}
bool is_lower_letter(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LL;
}

bool is_case(const Text& text, bool (*wanted)(char32_t)) {
  bool any = false, all = true;
  for_each_codepoint(text.view(), [&](char32_t c) {
    if (!cased(c)) return true;
    any = true;
    return all = wanted(c);
  });
  return any && all;
}

}  // namespace

Text upper(const Text& text) {
  return map_case(text, [](char32_t) { return Case::upper; });
}
Text lower(const Text& text) {
  return map_case(text, [](char32_t) { return Case::lower; });
}
Text casefold(const Text& text) {
  TextBuilder out;
  text.for_each_run([&out](std::string_view bytes, bool trusted) {
    work(units_of(8 * bytes.size()));
    for (size_t at = 0; at < bytes.size();) {
      const utf8::Decoded decoded = utf8::decode(bytes, at);
      utf8proc_int32_t folded[8];
      int boundary = 0;
      const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(decoded.codepoint), folded, 8,
                                                 UTF8PROC_CASEFOLD, &boundary);
      if (!decoded.valid || count < 1 || count > 8) {
        out.append(bytes.substr(at, decoded.length), trusted);
      } else {
        for (int i = 0; i < count; ++i) out.append(static_cast<char32_t>(folded[i]), trusted);
      }
      at += decoded.length;
    }
  });
  return out.take().with_markup(text.markup());
}
Text capitalize(const Text& text) {
  return map_case(text,
                  [first = true](char32_t) mutable { return std::exchange(first, false) ? Case::title : Case::lower; });
}
Text title(const Text& text) {
  return map_case(text, [inside = false](char32_t c) mutable {
    return std::exchange(inside, cased(c)) ? Case::lower : Case::title;
  });
}
Text swapcase(const Text& text) {
  return map_case(text, [](char32_t c) { return is_upper_letter(c) ? Case::lower : Case::upper; });
}

bool is_every(const Text& text, bool (*predicate)(char32_t)) {
  bool all = true;
  for_each_codepoint(text.view(), [&](char32_t c) { return all = predicate(c); });
  return all && !text.empty();
}

bool is_alpha(char32_t c) {
  const auto kind = category(c);
  return cased(c) || kind == UTF8PROC_CATEGORY_LM || kind == UTF8PROC_CATEGORY_LO;
}
bool is_decimal(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_ND;
}
bool is_digit(char32_t c) {
  // Superscripts, subscripts and circled digits have the property Numeric_Type=Digit.
  return is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247c) ||
         (c >= 0x2488 && c <= 0x2490) || c == 0x24ea || (c >= 0x24f5 && c <= 0x24fd) || c == 0x24ff ||
         (c >= 0x2776 && c <= 0x277e) || (c >= 0x2780 && c <= 0x2788) || (c >= 0x278a && c <= 0x2792);
}
bool is_numeric(char32_t c) {
  const auto kind = category(c);
  return is_digit(c) || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
}
bool is_printable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return c == ' ';
    default:
      return true;
  }
}
bool is_word(char32_t c) {
  return c == '_' || is_alpha(c) || is_numeric(c);
}

bool is_upper(const Text& text) {
  return is_case(text, is_upper_letter);
}
bool is_lower(const Text& text) {
  return is_case(text, is_lower_letter);
}
bool is_title(const Text& text) {
  bool any = false, good = true, inside = false;
  for_each_codepoint(text.view(), [&](char32_t c) {
    any = any || cased(c);
    if (cased(c)) good = inside == is_lower_letter(c);
    inside = cased(c);
    return good;
  });
  return any && good;
}

bool is_identifier(std::string_view text) {
  bool first = true, good = !text.empty();
  for_each_codepoint(text, [&](char32_t c) {
    const auto kind = category(c);
    const bool start = c == '_' || is_alpha(c) || kind == UTF8PROC_CATEGORY_NL;
    good = start || (!first && (is_decimal(c) || kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC ||
                                kind == UTF8PROC_CATEGORY_PC));
    first = false;
    return good;
  });
  return good;
}

}  // namespace martlet::jinja
