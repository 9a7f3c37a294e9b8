#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace martlet::utf8 {

struct Decoded {
  char32_t codepoint;  // U+FFFD when the bytes at this place are not valid UTF-8
  uint32_t length;     // bytes consumed, at least 1; for invalid input the maximal invalid prefix (Unicode 3.9)
  bool valid;
};

// Decodes one code point at text[offset]; offset < text.size().
Decoded decode(std::string_view text, size_t offset);
void append(std::string& out, char32_t codepoint);
// Offset of the first invalid byte, or npos when the whole text is valid (overlong forms and surrogates are invalid).
size_t find_invalid(std::string_view text);
inline bool valid(std::string_view text) {
  return find_invalid(text) == std::string_view::npos;
}
// Length of the longest prefix that does not end inside a sequence which more bytes could complete.
size_t complete_prefix(std::string_view text);
// The first `bytes` of `text`, less the start of a sequence that they would cut.
inline std::string_view head(std::string_view text, size_t bytes) {
  return text.substr(0, complete_prefix(text.substr(0, bytes)));
}
// `text` with every maximal invalid part replaced by U+FFFD.
std::string replace_invalid(std::string_view text);

}  // namespace martlet::utf8
