#pragma once

// Splits a template into tokens, with the white space rules of trim_blocks and lstrip_blocks applied.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace martlet::jinja {

enum class TokenType : uint8_t {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  integer,
  floating,
  string,
  symbol,
  end,
};

struct Lexeme {
  TokenType type = TokenType::end;
  std::string_view text;  // within the source; of a string, the part between its quotes
  uint32_t offset = 0;    // of its first byte in the source
};

// Line ends as "\n", without one at the very end, as Jinja reads a source.
std::string normalize_newlines(std::string_view source);

// `source` is normalized and must outlive the tokens. Throws Failure; its position is an offset, see Failure::offset.
std::vector<Lexeme> tokenize(std::string_view source);

// The value of a string literal's inner text: Python's escape sequences.
std::string unescape(std::string_view literal, uint32_t offset);

}  // namespace martlet::jinja
