#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace martlet::cli {

// How a piece of text looks; combined by |.
enum TextStyle : uint8_t {
  kPlain = 0,
  kBold = 1,
  kItalic = 2,
  kCode = 4,
  kHeading = 8,
  kDim = 16,
  kUnderline = 32,
  kStrike = 64,
};

struct StyledText {
  std::string text;
  uint8_t style = kPlain;
};

// The first line of a block starts with `first`, the others with `rest`; both have the same width.
struct Indent {
  std::string first, rest;
};

// Lays a block out as lines of at most `width` columns: broken between words when `wrap`, else only where a line is
// full.
// "\n" in the text ends a line. With `colours` the lines carry SGR escape sequences and end in plain style.
std::vector<std::string> lay_out(const std::vector<StyledText>& block, const Indent& indent, int width, bool wrap,
                                 bool colours);

// Columns that `text` takes on a terminal.
int columns_of(std::string_view text);

// `text`, valid UTF-8, without the control characters that a terminal would obey; line breaks and tabs stay.
std::string without_controls(std::string_view text);

}  // namespace martlet::cli
