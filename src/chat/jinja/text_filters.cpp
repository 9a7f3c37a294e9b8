// Filters that make strings.

#include "base/utf8.h"
#include "chat/jinja/ast.h"
#include "chat/jinja/format.h"
#include "chat/jinja/python_string.h"
#include "chat/jinja/represent.h"

namespace martlet::jinja {
namespace {

// What most text filters do to a value that is no string: str() of it. Markup stays markup.
Text soft_text(const Call& call) {
  return call.self.text() ? *call.self.text() : to_text(call.self);
}

template <Text (*function)(const Text&)>
Value map_filter(const Call& call) {
  return function(soft_text(call));
}

bool begins_word(char32_t c) {
  return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c);
}

// Words begin after white space and - ( { [ <, unlike those of str.title.
Value title_filter(const Call& call) {
  const Text text = soft_text(call);
  const std::string_view bytes = text.view();
  TextBuilder out;
  for (size_t at = 0; at < bytes.size();) {
    size_t end = at;
    const bool separator = begins_word(utf8::decode(bytes, at).codepoint);
    while (end < bytes.size() && begins_word(utf8::decode(bytes, end).codepoint) == separator) {
      end += utf8::decode(bytes, end).length;
    }
    const size_t second = separator ? end : at + utf8::decode(bytes, at).length;
    out.append(separator ? text.slice(at, end) : upper(text.slice(at, second)));
    out.append(lower(text.slice(second, end)));
    at = end;
  }
  return out.take().with_markup(text.markup());
}

Value trim(const Call& call) {
  const Text characters = call.none(0) ? Text() : call.text(0);
  return strip(soft_text(call), Side::both, call.none(0) ? nullptr : &characters);
}

Value replace_filter(const Call& call) {
  const Integer limit = call.none(2) ? -1 : call.integer(2);
  return replace(to_text(call.self), to_text(*call.argument(0)), to_text(*call.argument(1)), limit);
}

Value indent(const Call& call) {
  const Text& self = need_text(call.self);
  const Text* given = call.argument(0) ? call.argument(0)->text() : nullptr;
  const Text step = given ? *given : repeat(Text(" ", self.wholly_trusted()), call.integer(0, 4));
  const Text newline("\n", self.wholly_trusted());
  // The end of line that Jinja adds here keeps an empty last line.
  const Items lines = split_lines(concatenate(self, newline), false);
  TextBuilder out;
  for (size_t i = 0; i < lines.size(); ++i) {
    const Text& line = *lines[i].text();
    if (i > 0) out.append(newline);
    const bool indents = i == 0 ? call.boolean(1, false) : call.boolean(2, false) || !line.empty();
    if (indents) out.append(step);
    out.append(line);
  }
  return out.take().with_markup(self.markup());
}

Value truncate(const Call& call) {
  const Text& text = need_text(call.self);
  const Integer length = call.integer(0, 255), leeway = call.none(3) ? 5 : call.integer(3);
  const Text end = call.text(2, Text("...", true));
  const Integer room = length - static_cast<Integer>(end.length());
  if (room < 0 || leeway < 0) fail("truncate() wants a length of at least its end mark's, and a leeway of at least 0");
  if (static_cast<Integer>(text.length()) - leeway <= length) return text;
  const Text kept = slice(text, slice_range(text.length(), 0, room, 1));
  if (call.boolean(1, false)) return concatenate(kept, end);
  const Text space(" ", true);
  return concatenate(*rsplit(kept, &space, 1).front().text(), end);
}

// Breaks after white space and hyphens, as Python's textwrap; words longer than a line are cut.
class Wrapper {
 public:
  Wrapper(size_t width, bool breaks_long, bool breaks_hyphens)
      : width_(width), breaks_long_(breaks_long), breaks_hyphens_(breaks_hyphens) {}

  Items wrap(const Text& text) {
    split_chunks(text);
    Items lines;
    for (size_t at = 0; at < chunks_.size();) {
      TextBuilder line;
      size_t used = 0, last = 0;
      if (!lines.empty() && blank(chunks_[at])) ++at;
      const size_t begin = at;
      while (at < chunks_.size() && used + chunks_[at].length() <= width_) used += chunks_[at++].length();
      if (at < chunks_.size() && chunks_[at].length() > width_) {
        if (breaks_long_) {
          break_chunk(at, width_ - used);
          ++at;
        } else if (at == begin) {
          ++at;
        }
      }
      last = at;
      if (last > begin && blank(chunks_[last - 1])) --last;
      if (last == begin) continue;
      for (size_t i = begin; i < last; ++i) line.append(chunks_[i]);
      lines.push_back(line.take());
    }
    return lines;
  }

 private:
  static bool blank(const Text& text) { return strip(text, Side::both).empty(); }

  void push(const Text& text, size_t begin, size_t end) {
    if (end > begin) chunks_.push_back(text.slice(begin, end));
  }

  void split_chunks(const Text& text) {
    const std::string_view bytes = text.view();
    for (size_t at = 0; at < bytes.size();) {
      size_t end = at;
      const bool space = is_space(utf8::decode(bytes, at).codepoint);
      while (end < bytes.size() && is_space(utf8::decode(bytes, end).codepoint) == space) {
        end += utf8::decode(bytes, end).length;
      }
      space ? push(text, at, end) : split_word(text, at, end);
      at = end;
    }
  }

  // A hyphen between letters ends a chunk.
  void split_word(const Text& text, size_t begin, size_t end) {
    const std::string_view bytes = text.view();
    for (size_t i = begin + 2; breaks_hyphens_ && i + 2 < end; ++i) {
      const bool letters = std::isalpha(static_cast<unsigned char>(bytes[i - 1])) &&
                           std::isalpha(static_cast<unsigned char>(bytes[i - 2])) &&
                           std::isalpha(static_cast<unsigned char>(bytes[i + 1])) &&
                           std::isalpha(static_cast<unsigned char>(bytes[i + 2]));
      if (bytes[i] != '-' || !letters) continue;
      push(text, begin, i + 1);
      begin = i + 1;
    }
    push(text, begin, end);
  }

  void break_chunk(size_t at, size_t room) {
    const Text chunk = chunks_[at];
    size_t cut = offset_of(chunk, room);
    const size_t hyphen = breaks_hyphens_ ? chunk.view().substr(0, cut).rfind('-') : std::string_view::npos;
    const bool divides = hyphen != std::string_view::npos &&
                         chunk.view().substr(0, hyphen).find_first_not_of('-') != std::string_view::npos;
    if (divides) cut = hyphen + 1;
    chunks_[at] = chunk.slice(0, cut);
    chunks_.insert(chunks_.begin() + static_cast<ptrdiff_t>(at) + 1, chunk.slice(cut, chunk.size()));
    work(chunks_.size() / 8 + 1);
  }

  const size_t width_;
  const bool breaks_long_, breaks_hyphens_;
  Vector<Text> chunks_;
};

Value wordwrap(const Call& call) {
  const Text& text = need_text(call.self);
  const Integer width = call.integer(0, 79);
  if (width <= 0) fail("wordwrap() wants a positive width");
  const Text newline = call.none(2) ? Text("\n", true) : call.text(2);
  TextBuilder out;
  bool first = true;
  for (const Value& line : split_lines(text, false)) {
    if (!std::exchange(first, false)) out.append(newline);
    bool first_part = true;
    Wrapper wrapper(static_cast<size_t>(width), call.boolean(1, true), call.boolean(3, true));
    for (const Value& part : wrapper.wrap(*line.text())) {
      if (!std::exchange(first_part, false)) out.append(newline);
      out.append(*part.text());
    }
  }
  return out.take();
}

Value wordcount(const Call& call) {
  const Text text = soft_text(call);
  const std::string_view bytes = text.view();
  Integer words = 0;
  bool inside = false;
  for (size_t at = 0; at < bytes.size(); at += utf8::decode(bytes, at).length) {
    const bool word = is_word(utf8::decode(bytes, at).codepoint);
    words += word && !inside ? 1 : 0;
    inside = word;
  }
  return words;
}

std::string quote_url(std::string_view bytes, bool query) {
  std::string out;
  for (const char c : bytes) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) || std::string_view("_.-~").find(c) != std::string_view::npos;
    if (plain || (c == '/' && !query)) {
      out += c;
    } else if (c == ' ' && query) {
      out += '+';
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += "0123456789ABCDEF"[byte >> 4];
      out += "0123456789ABCDEF"[byte & 15];
    }
  }
  return out;
}

Value urlencode(const Call& call) {
  if (call.self.text() || !(call.self.dict() || call.self.sequence() || call.self.undefined())) {
    return make_text(quote_url(to_text(call.self).view(), false));
  }
  Items pairs;
  if (const Dict* dict = call.self.dict()) {
    for (const auto& [key, value] : dict->entries()) pairs.push_back(make_tuple({key, value}));
  } else {
    pairs = items_of(call.self);
  }
  TextBuilder out;
  for (const Value& pair : pairs) {
    const Items items = items_of(pair);
    if (items.size() != 2) fail("urlencode() wants pairs");
    if (out.size() > 0) out.append("&", false);
    out.append(quote_url(to_text(items[0]).view(), true), false);
    out.append("=", false);
    out.append(quote_url(to_text(items[1]).view(), true), false);
  }
  return out.take();
}

Value xmlattr(const Call& call) {
  TextBuilder out;
  for (const auto& [key, value] : need_dict(call.self).entries()) {
    if (value.none() || value.undefined()) continue;
    const Text& name = need_text(key);
    if (name.view().find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos)
      fail("invalid character in an attribute's name");
    if (out.size() > 0 || call.boolean(0, true)) out.append(" ", false);
    out.append(escape_html(name));
    out.append("=\"", false);
    out.append(escape_html(value.text() ? *value.text() : to_text(value)));
    out.append("\"", false);
  }
  return out.take();
}

// Drops tags and comments, resolves the basic entities, and joins words with single spaces.
Value striptags(const Call& call) {
  const Text text = soft_text(call);
  const std::string_view bytes = text.view();
  TextBuilder plain;
  for (size_t at = 0; at < bytes.size();) {
    const bool comment = bytes.substr(at, 4) == "<!--";
    const size_t close = bytes[at] == '<' ? find(bytes, comment ? "-->" : ">", at) : bytes.npos;
    if (close != bytes.npos) {
      at = close + (comment ? 3 : 1);
      continue;
    }
    const size_t next = bytes[at] == '<' ? bytes.size() : std::min(bytes.find('<', at), bytes.size());
    plain.append(text.slice(at, next));
    at = next;
  }
  Text result = plain.take();
  static constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&lt;", "<"}, {"&gt;", ">"}, {"&#34;", "\""}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}};
  for (const auto& [entity, character] : kEntities) {
    result = replace(result, Text(entity, false), Text(character, false), -1);
  }
  Pieces words;
  for (const Value& word : split(result, nullptr, -1)) {
    if (words.size() > 0) words.append(Text(" ", false));
    words.append(*word.text());
  }
  return words.join();
}

Value tojson(const Call& call) {
  JsonOptions options;
  options.ensure_ascii = call.boolean(0, false);
  options.sort_keys = call.boolean(3, false);
  if (!call.none(1)) {
    const Text* text = call.argument(1)->text();
    options.indent = text ? *text : repeat(Text(" ", false), call.integer(1));
  }
  options.item_separator = Text(options.indent ? "," : ", ", false);
  options.key_separator = Text(": ", false);
  if (!call.none(2)) {
    const Items separators = items_of(*call.argument(2));
    if (separators.size() != 2) fail("tojson() wants two separators");
    options.item_separator = need_text(separators[0]);
    options.key_separator = need_text(separators[1]);
  }
  return to_json(call.self, options);
}

Value format_filter(const Call& call) {
  if (!call.all.positional.empty() && !call.all.named.empty())
    fail("format() takes either positional or named arguments");
  if (call.all.named.empty()) return printf_format(soft_text(call), make_tuple(call.all.positional));
  Dict dict;
  for (const auto& [name, value] : call.all.named) dict.set(name, value);
  return printf_format(soft_text(call), make_dict(std::move(dict)));
}

Value escape(const Call& call) {
  return escape_html(soft_text(call));
}

Value represent_filter(const Call& call) {
  TextBuilder out;
  represent(call.self, out);
  return out.take();
}

constexpr Builtin kFilters[] = {
    {"capitalize", {}, 0, map_filter<capitalize>},
    {"center",
     {"width"},
     0,
     [](const Call& call) -> Value { return pad(soft_text(call), call.integer(0, 80), Text(" ", false), Side::both); }},
    {"e", {}, 0, escape},
    {"escape", {}, 0, escape},
    {"forceescape", {}, 0, [](const Call& call) -> Value { return escape_html(to_text(call.self)); }},
    {"format", {"*"}, 0, format_filter},
    {"indent", {"width", "first", "blank"}, 0, indent},
    {"lower", {}, 0, map_filter<lower>},
    {"pprint", {}, 0, represent_filter},
    {"replace", {"old", "new", "count"}, 2, replace_filter},
    {"safe", {}, 0, [](const Call& call) -> Value { return to_text(call.self).with_markup(true); }},
    {"string", {}, 0, [](const Call& call) -> Value { return soft_text(call); }},
    {"striptags", {}, 0, striptags},
    {"title", {}, 0, title_filter},
    {"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, 0, tojson},
    {"trim", {"chars"}, 0, trim},
    {"truncate", {"length", "killwords", "end", "leeway"}, 0, truncate},
    {"upper", {}, 0, map_filter<upper>},
    {"urlencode", {}, 0, urlencode},
    {"wordcount", {}, 0, wordcount},
    {"wordwrap", {"width", "break_long_words", "wrapstring", "break_on_hyphens"}, 0, wordwrap},
    {"xmlattr", {"autospace"}, 0, xmlattr},
};

}  // namespace

std::span<const Builtin> text_filters() {
  return kFilters;
}

}  // namespace martlet::jinja
