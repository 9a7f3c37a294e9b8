#include "cli/chat/text_layout.h"

#include <wchar.h>

#include <algorithm>

#include "base/utf8.h"

namespace martlet::cli {
namespace {

struct Glyph {
  std::string bytes;
  int width;
  uint8_t style;
  bool is(char c) const { return bytes.size() == 1 && bytes[0] == c; }
};
using Glyphs = std::vector<Glyph>;

struct Sgr {
  uint8_t style;
  const char* code;
};
constexpr Sgr kCodes[] = {{kBold, "1"}, {kItalic, "3"},    {kCode, "36"}, {kHeading, "1;35"},
                          {kDim, "2"},  {kUnderline, "4"}, {kStrike, "9"}};

std::string escape_of(uint8_t style) {
  std::string out = "\x1b[0";
  for (const Sgr& row : kCodes) {
    if (style & row.style) out += std::string(";") + row.code;
  }
  return out + "m";
}

int width_of(char32_t c) {
  return std::max(0, wcwidth(static_cast<wchar_t>(c)));
}

void split(const StyledText& piece, Glyphs& out) {
  for (size_t at = 0; at < piece.text.size();) {
    const utf8::Decoded decoded = utf8::decode(piece.text, at);
    out.push_back({piece.text.substr(at, decoded.length), width_of(decoded.codepoint), piece.style});
    at += decoded.length;
  }
}

// One output line from glyphs [begin, end).
std::string draw(const Glyphs& glyphs, size_t begin, size_t end, const std::string& indent, bool colours) {
  std::string line = colours && !indent.empty() ? escape_of(kDim) + indent + escape_of(kPlain) : indent;
  uint8_t style = kPlain;
  for (size_t i = begin; i < end; ++i) {
    if (colours && glyphs[i].style != style) line += escape_of(style = glyphs[i].style);
    line += glyphs[i].bytes;
  }
  if (style != kPlain) line += escape_of(kPlain);
  return line;
}

// Where the line that begins at `begin` ends, and where the next one begins.
struct Break {
  size_t end, next;
};

Break find_break(const Glyphs& glyphs, size_t begin, int room, bool wrap) {
  int used = 0;
  size_t space = begin;  // the last space that the line could be broken at
  for (size_t i = begin; i < glyphs.size(); ++i) {
    if (glyphs[i].is('\n')) return {i, i + 1};
    if (used + glyphs[i].width > room && i > begin) {
      if (wrap && glyphs[i].is(' ')) return {i, i + 1};
      if (wrap && space > begin) return {space, space + 1};
      return {i, i};
    }
    if (glyphs[i].is(' ')) space = i;
    used += glyphs[i].width;
  }
  return {glyphs.size(), glyphs.size()};
}

}  // namespace

int columns_of(std::string_view text) {
  int columns = 0;
  for (size_t at = 0; at < text.size();) {
    const utf8::Decoded decoded = utf8::decode(text, at);
    columns += width_of(decoded.codepoint);
    at += decoded.length;
  }
  return columns;
}

std::string without_controls(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const utf8::Decoded decoded = utf8::decode(text, at);
    const char32_t c = decoded.codepoint;
    const bool control = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c <= 0x9f);
    if (!control) out += text.substr(at, decoded.length);
    at += decoded.length;
  }
  return out;
}

std::vector<std::string> lay_out(const std::vector<StyledText>& block, const Indent& indent, int width, bool wrap,
                                 bool colours) {
  constexpr int kLeast = 8;  // columns of text, however deep the block is indented
  Glyphs glyphs;
  for (const StyledText& piece : block) split(piece, glyphs);
  const int room = std::max(kLeast, width - columns_of(indent.first));
  std::vector<std::string> lines;
  size_t begin = 0;
  do {
    const Break at = find_break(glyphs, begin, room, wrap);
    lines.push_back(draw(glyphs, begin, at.end, lines.empty() ? indent.first : indent.rest, colours));
    begin = at.next;
  } while (begin < glyphs.size());
  return lines;
}

}  // namespace martlet::cli
