#pragma once

// Python's string algorithms on texts of UTF-8: linear in their input, provenance kept. Positions are byte offsets
// unless a name says otherwise.

#include <optional>
#include <string_view>

#include "chat/jinja/value.h"

namespace martlet::jinja {

// std::string_view::npos when absent.
size_t find(std::string_view text, std::string_view part, size_t from = 0);
size_t rfind(std::string_view text, std::string_view part);

bool is_space(char32_t codepoint);  // what str.isspace and str.strip take for white space

Items characters(const Text& text);
// Byte offset of a code point index; text.size() past the end.
size_t offset_of(const Text& text, size_t index);
size_t index_of(const Text& text, size_t offset);

enum class Side { left = 1, right = 2, both = 3 };
// Strips white space, or the code points of `characters`.
Text strip(const Text& text, Side side, const Text* characters = nullptr);

// `limit` < 0: no limit. Without a separator: at runs of white space, as str.split().
Items split(const Text& text, const Text* separator, Integer limit);
Items rsplit(const Text& text, const Text* separator, Integer limit);
Items split_lines(const Text& text, bool keep_ends);
Text replace(const Text& text, const Text& old, const Text& with, Integer count);
size_t count(const Text& text, std::string_view part);

Text upper(const Text& text);
Text lower(const Text& text);
Text casefold(const Text& text);
Text capitalize(const Text& text);
Text title(const Text& text);
Text swapcase(const Text& text);

// Fills with `fill` up to `width` code points: before the text, behind it, or on both sides as str.center does.
Text pad(const Text& text, Integer width, const Text& fill, Side fill_side);
Text repeat(const Text& text, Integer times);
Text expand_tabs(const Text& text, Integer width);
Text escape_html(const Text& text);  // & < > " ' as MarkupSafe writes them; sets the markup flag

// Predicates of whole strings, false for empty ones (but str.isascii and str.isprintable).
bool is_every(const Text& text, bool (*predicate)(char32_t));
bool is_alpha(char32_t codepoint);
bool is_decimal(char32_t codepoint);
bool is_digit(char32_t codepoint);
bool is_numeric(char32_t codepoint);
bool is_printable(char32_t codepoint);
bool is_word(char32_t codepoint);  // \w of a regular expression
bool is_upper(const Text& text);
bool is_lower(const Text& text);
bool is_title(const Text& text);
bool is_identifier(std::string_view text);

// Python's slice.indices(): positions start, start+step ... for `count` items.
struct SliceRange {
  Integer start, step;
  size_t count;
};
SliceRange slice_range(size_t length, std::optional<Integer> start, std::optional<Integer> stop,
                       std::optional<Integer> step);
Text slice(const Text& text, const SliceRange& range);  // in code points

}  // namespace martlet::jinja
