// Methods of str.

#include "chat/jinja/builtin.h"
#include "chat/jinja/format.h"
#include "chat/jinja/python_string.h"
#include "chat/jinja/represent.h"

namespace martlet::jinja {
namespace {

const Text& self(const Call& call) {
  return *call.self.text();
}

// An argument as the method of a markup string sees it: escaped.
Text argument_text(const Call& call, size_t index) {
  const Text& text = need_text(*call.argument(index));
  return self(call).markup() ? escape_html(text) : text;
}

std::optional<Text> optional_text(const Call& call, size_t index) {
  if (call.none(index)) return std::nullopt;
  return argument_text(call, index);
}

Text same_markup(const Call& call, const Text& text) {
  return text.with_markup(self(call).markup());
}

template <Side side>
Value strip_method(const Call& call) {
  const auto characters = optional_text(call, 0);
  return strip(self(call), side, characters ? &*characters : nullptr);
}

template <Items (*function)(const Text&, const Text*, Integer)>
Value split_method(const Call& call) {
  const auto separator = optional_text(call, 0);
  return make_list(function(self(call), separator ? &*separator : nullptr, call.integer(1, -1)));
}

template <Text (*function)(const Text&)>
Value map_method(const Call& call) {
  return function(self(call));
}

template <bool (*function)(const Text&)>
Value test_method(const Call& call) {
  return function(self(call));
}

template <bool (*predicate)(char32_t)>
Value every_method(const Call& call) {
  return is_every(self(call), predicate);
}

// The part of the text that optional start and end arguments (code points, from argument `index` on) leave.
struct Window {
  Text text;
  size_t start;   // code points before it
  bool possible;  // false when the start lies behind the end of the text
};
Window window(const Call& call, size_t index) {
  const Text& text = self(call);
  if (call.none(index) && call.none(index + 1)) return {text, 0, true};
  const auto bound = [&](size_t i) { return call.none(i) ? std::nullopt : std::optional(call.integer(i)); };
  const size_t length = text.length();
  const auto start = bound(index);
  const SliceRange range = slice_range(length, start, bound(index + 1), 1);
  return {slice(text, range), static_cast<size_t>(range.start), !start || *start <= static_cast<Integer>(length)};
}

std::optional<Integer> find_index(const Call& call, bool from_right) {
  const Text part = need_text(*call.argument(0));
  const Window inside = window(call, 1);
  if (!inside.possible) return std::nullopt;
  const size_t at = from_right ? rfind(inside.text.view(), part.view()) : find(inside.text.view(), part.view());
  if (at == std::string_view::npos) return std::nullopt;
  return static_cast<Integer>(inside.start + index_of(inside.text, at));
}

template <bool from_right>
Value find_method_(const Call& call) {
  return find_index(call, from_right).value_or(-1);
}

template <bool from_right>
Value index_method(const Call& call) {
  const auto index = find_index(call, from_right);
  if (!index) fail("substring not found");
  return *index;
}

template <bool at_end>
Value affix_method(const Call& call) {
  const Window inside = window(call, 1);
  const auto matches = [&](const Value& value) {
    const std::string_view affix = need_text(value).view();
    const std::string_view text = inside.text.view();
    return inside.possible && (at_end ? text.ends_with(affix) : text.starts_with(affix));
  };
  const Sequence* choices = call.argument(0)->sequence(Sequence::Kind::tuple);
  if (!choices) return matches(*call.argument(0));
  return std::any_of(choices->items.begin(), choices->items.end(), matches);
}

template <bool at_end>
Value remove_affix(const Call& call) {
  const Text& text = self(call);
  const std::string_view affix = need_text(*call.argument(0)).view();
  if (!(at_end ? text.view().ends_with(affix) : text.view().starts_with(affix))) return text;
  return at_end ? text.slice(0, text.size() - affix.size()) : text.slice(affix.size(), text.size());
}

template <bool from_right>
Value partition(const Call& call) {
  const Text& text = self(call);
  const Text separator = argument_text(call, 0);
  if (separator.empty()) fail("empty separator");
  const size_t at = from_right ? rfind(text.view(), separator.view()) : find(text.view(), separator.view());
  const Text nothing = same_markup(call, {});
  if (at == std::string_view::npos) {
    return from_right ? make_tuple({nothing, nothing, text}) : make_tuple({text, nothing, nothing});
  }
  const size_t after = at + separator.size();
  return make_tuple({text.slice(0, at), text.slice(at, after), text.slice(after, text.size())});
}

Value join(const Call& call) {
  Pieces pieces;
  bool first = true;
  for (const Value& item : items_of(*call.argument(0))) {
    const Text& text = need_text(item);
    if (!std::exchange(first, false)) pieces.append(self(call));
    pieces.append(self(call).markup() ? escape_html(text) : text);
  }
  return same_markup(call, pieces.join());
}

Value replace_method(const Call& call) {
  return same_markup(call, replace(self(call), argument_text(call, 0), argument_text(call, 1), call.integer(2, -1)));
}

template <Side fill_side>
Value pad_method(const Call& call) {
  return same_markup(
      call, pad(self(call), call.integer(0), call.argument(1) ? argument_text(call, 1) : Text(" ", false), fill_side));
}

Value fill_zeros(const Call& call) {
  const Text& text = self(call);
  const bool sign = !text.empty() && (text.view()[0] == '-' || text.view()[0] == '+');
  const Text digits = text.slice(sign ? 1 : 0, text.size());
  const Text filled = pad(digits, call.integer(0) - (sign ? 1 : 0), Text("0", false), Side::left);
  return same_markup(call, concatenate(text.slice(0, sign ? 1 : 0), filled));
}

Value count_method(const Call& call) {
  const Window inside = window(call, 1);
  const std::string_view part = need_text(*call.argument(0)).view();
  return inside.possible ? static_cast<Integer>(count(inside.text, part)) : Integer{0};
}

Value format_method(const Call& call) {
  return same_markup(call, string_format(call.interpreter, self(call), call.all));
}

Value format_map(const Call& call) {
  Arguments arguments;
  for (const auto& [name, value] : need_dict(*call.argument(0)).entries()) {
    arguments.named.emplace_back(to_text(name), value);
  }
  return same_markup(call, string_format(call.interpreter, self(call), arguments));
}

bool is_identifier_text(const Text& text) {
  return is_identifier(text.view());
}
bool is_ascii_text(const Text& text) {
  const std::string_view bytes = text.view();
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}
bool is_printable_text(const Text& text) {
  return text.empty() || is_every(text, is_printable);
}
bool is_alphanumeric(char32_t c) {
  return is_alpha(c) || is_numeric(c);
}

Value unsupported(const Call&) {
  fail("this string method is not supported");
}

constexpr Builtin kMethods[] = {
    {"capitalize", {}, 0, map_method<capitalize>},
    {"casefold", {}, 0, map_method<casefold>},
    {"center", {"/width", "/fillchar"}, 1, pad_method<Side::both>},
    {"count", {"/sub", "/start", "/end"}, 1, count_method},
    {"encode", {"*"}, 0, unsupported},
    {"endswith", {"/suffix", "/start", "/end"}, 1, affix_method<true>},
    {"expandtabs",
     {"tabsize"},
     0,
     [](const Call& call) -> Value { return expand_tabs(self(call), call.integer(0, 8)); }},
    {"find", {"/sub", "/start", "/end"}, 1, find_method_<false>},
    {"format", {"*"}, 0, format_method},
    {"format_map", {"/mapping"}, 1, format_map},
    {"index", {"/sub", "/start", "/end"}, 1, index_method<false>},
    {"isalnum", {}, 0, every_method<is_alphanumeric>},
    {"isalpha", {}, 0, every_method<is_alpha>},
    {"isascii", {}, 0, test_method<is_ascii_text>},
    {"isdecimal", {}, 0, every_method<is_decimal>},
    {"isdigit", {}, 0, every_method<is_digit>},
    {"isidentifier", {}, 0, test_method<is_identifier_text>},
    {"islower", {}, 0, test_method<is_lower>},
    {"isnumeric", {}, 0, every_method<is_numeric>},
    {"isprintable", {}, 0, test_method<is_printable_text>},
    {"isspace", {}, 0, every_method<is_space>},
    {"istitle", {}, 0, test_method<is_title>},
    {"isupper", {}, 0, test_method<is_upper>},
    {"join", {"/iterable"}, 1, join},
    {"ljust", {"/width", "/fillchar"}, 1, pad_method<Side::right>},
    {"lower", {}, 0, map_method<lower>},
    {"lstrip", {"/chars"}, 0, strip_method<Side::left>},
    {"maketrans", {"*"}, 0, unsupported},
    {"partition", {"/sep"}, 1, partition<false>},
    {"removeprefix", {"/prefix"}, 1, remove_affix<false>},
    {"removesuffix", {"/suffix"}, 1, remove_affix<true>},
    {"replace", {"/old", "/new", "/count"}, 2, replace_method},
    {"rfind", {"/sub", "/start", "/end"}, 1, find_method_<true>},
    {"rindex", {"/sub", "/start", "/end"}, 1, index_method<true>},
    {"rjust", {"/width", "/fillchar"}, 1, pad_method<Side::left>},
    {"rpartition", {"/sep"}, 1, partition<true>},
    {"rsplit", {"sep", "maxsplit"}, 0, split_method<rsplit>},
    {"rstrip", {"/chars"}, 0, strip_method<Side::right>},
    {"split", {"sep", "maxsplit"}, 0, split_method<split>},
    {"splitlines",
     {"keepends"},
     0,
     [](const Call& call) { return make_list(split_lines(self(call), call.boolean(0, false))); }},
    {"startswith", {"/prefix", "/start", "/end"}, 1, affix_method<false>},
    {"strip", {"/chars"}, 0, strip_method<Side::both>},
    {"swapcase", {}, 0, map_method<swapcase>},
    {"title", {}, 0, map_method<title>},
    {"translate", {"*"}, 0, unsupported},
    {"upper", {}, 0, map_method<upper>},
    {"zfill", {"/width"}, 1, fill_zeros},
};

}  // namespace

std::span<const Builtin> string_methods() {
  return kMethods;
}

}  // namespace martlet::jinja
