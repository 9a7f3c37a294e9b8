#include "chat/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "chat/jinja/python_string.h"

namespace martlet::jinja {
namespace {

constexpr size_t kMaxTokens = 500'000;

constexpr std::string_view kSymbols[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                         "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

bool digit(char c) {
  return c >= '0' && c <= '9';
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Lexeme> run() {
    while (at_ < source_.size()) read_data();
    push(TokenType::end, at_, at_);
    return std::move(tokens_);
  }

 private:
  bool ahead(std::string_view text, size_t offset) const { return source_.substr(offset, text.size()) == text; }
  bool ahead(std::string_view text) const { return ahead(text, at_); }
  char peek(size_t offset) const { return offset < source_.size() ? source_[offset] : '\0'; }
  size_t after_space(size_t offset) const {
    while (offset < source_.size()) {
      const utf8::Decoded decoded = utf8::decode(source_, offset);
      if (!is_space(decoded.codepoint)) break;
      offset += decoded.length;
    }
    return offset;
  }

  void push(TokenType type, size_t begin, size_t end) {
    if (tokens_.size() >= kMaxTokens) fail_at(static_cast<uint32_t>(begin), "the template has too many tokens");
    tokens_.push_back({type, source_.substr(begin, end - begin), static_cast<uint32_t>(begin)});
  }

  // Data before a tag: "-" strips all white space, and a block that stands first on its line loses its indentation.
  void push_data(size_t begin, size_t end, char sign, bool strips_line) {
    std::string_view text = source_.substr(begin, end - begin);
    if (sign == '-') {
      text = strip(Text::borrow(text, true), Side::right).view();
    } else if (sign != '+' && strips_line) {
      const size_t newline = text.rfind('\n');
      const size_t line = newline == text.npos ? 0 : newline + 1;
      if ((line > 0 || line_starting_) && after_space(begin + line) >= end) text = text.substr(0, line);
    }
    if (!text.empty()) push(TokenType::data, begin, begin + text.size());
  }

  static char sign_of(char c) { return c == '-' || c == '+' ? c : '\0'; }

  void read_data() {
    const size_t begin = at_;
    size_t tag = begin;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == source_.npos) {
        push(TokenType::data, begin, source_.size());
        at_ = source_.size();
        return;
      }
      const char kind = peek(tag + 1);
      if (kind == '{' || kind == '%' || kind == '#') break;
      ++tag;
    }
    const char kind = source_[tag + 1];
    const char sign = sign_of(peek(tag + 2));
    push_data(begin, tag, sign, kind != '{');
    at_ = tag + 2 + (sign ? 1 : 0);
    if (kind == '#') return read_comment(tag);
    if (kind == '{') return read_tag(tag, TokenType::variable_begin, TokenType::variable_end, "}}");
    if (read_raw(tag)) return;
    read_tag(tag, TokenType::block_begin, TokenType::block_end, "%}");
  }

  // True, and past it, at an end mark: "-" eats white space behind it, "+" keeps the line end that is otherwise eaten.
  bool read_end(std::string_view mark, bool trims_newline) {
    const bool plus = trims_newline && peek(at_) == '+' && ahead(mark, at_ + 1);
    const bool minus = peek(at_) == '-' && ahead(mark, at_ + 1);
    if (!plus && !minus && !ahead(mark)) return false;
    at_ += mark.size() + (plus || minus ? 1 : 0);
    if (minus) at_ = after_space(at_);
    if (!plus && !minus && trims_newline && peek(at_) == '\n') ++at_;
    line_starting_ = source_[at_ - 1] == '\n';
    return true;
  }

  void read_comment(size_t begin) {
    for (size_t mark = source_.find("#}", at_); mark != source_.npos; mark = source_.find("#}", mark + 1)) {
      const bool sign = mark > at_ && sign_of(source_[mark - 1]);
      at_ = sign ? mark - 1 : mark;
      if (read_end("#}", true)) return;
    }
    fail_at(static_cast<uint32_t>(begin), "missing end of comment");
  }

  // {% raw %} ... {% endraw %}: the text between is data. `tag`: offset of the opening mark, at_ behind it.
  bool read_raw(size_t tag) {
    size_t at = after_space(at_);
    if (!ahead("raw", at)) return false;
    at = after_space(at + 3);
    if (ahead("-%}", at)) {
      at = after_space(at + 3);
    } else if (ahead("%}", at)) {
      at += 2;
    } else {
      return false;
    }
    line_starting_ = source_[at - 1] == '\n';
    const size_t begin = at;
    for (size_t mark = source_.find("{%", begin); mark != source_.npos; mark = source_.find("{%", mark + 1)) {
      const char sign = sign_of(peek(mark + 2));
      at_ = after_space(mark + 2 + (sign ? 1 : 0));
      if (!ahead("endraw")) continue;
      at_ = after_space(at_ + 6);
      const bool starting = line_starting_;
      if (!read_end("%}", true)) continue;
      const bool ending = std::exchange(line_starting_, starting);
      push_data(begin, mark, sign, true);
      line_starting_ = ending;
      return true;
    }
    fail_at(static_cast<uint32_t>(tag), "missing end of raw block");
  }

  void read_tag(size_t begin, TokenType opens, TokenType closes, std::string_view mark) {
    push(opens, begin, at_);
    std::string open_brackets;
    while (true) {
      at_ = after_space(at_);
      if (at_ >= source_.size()) fail_at(static_cast<uint32_t>(begin), "missing end of tag");
      const size_t from = at_;
      if (open_brackets.empty() && read_end(mark, mark == "%}")) return push(closes, from, at_);
      read_token(open_brackets);
    }
  }

  void read_token(std::string& open_brackets) {
    const char c = source_[at_];
    if (digit(c)) return read_number();
    if (c == '"' || c == '\'') return read_string(c);
    const size_t begin = at_;
    while (at_ < source_.size() && is_word(utf8::decode(source_, at_).codepoint)) {
      at_ += utf8::decode(source_, at_).length;
    }
    if (at_ > begin) {
      if (!is_identifier(source_.substr(begin, at_ - begin))) {
        fail_at(static_cast<uint32_t>(begin), "invalid character in a name");
      }
      return push(TokenType::name, begin, at_);
    }
    read_symbol(open_brackets);
  }

  void read_symbol(std::string& open_brackets) {
    const auto symbol = std::find_if(std::begin(kSymbols), std::end(kSymbols), [&](auto s) { return ahead(s); });
    if (symbol == std::end(kSymbols)) fail_at(static_cast<uint32_t>(at_), "unexpected character");
    const char c = (*symbol)[0];
    if (c == '(' || c == '[' || c == '{') {
      open_brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open_brackets.empty() || open_brackets.back() != c) {
        fail_at(static_cast<uint32_t>(at_), "unexpected closing bracket");
      }
      open_brackets.pop_back();
    }
    push(TokenType::symbol, at_, at_ + symbol->size());
    at_ += symbol->size();
  }

  void read_string(char quote) {
    const size_t begin = at_ + 1;
    for (size_t i = begin; i < source_.size(); ++i) {
      if (source_[i] == '\\') {
        ++i;
      } else if (source_[i] == quote) {
        push(TokenType::string, begin, i);
        tokens_.back().offset = static_cast<uint32_t>(at_);
        at_ = i + 1;
        return;
      }
    }
    fail_at(static_cast<uint32_t>(at_), "missing end of string");
  }

  // Digits with single underscores between them. Past them; `offset` unchanged when there are none.
  template <class IsDigit>
  size_t after_digits(size_t offset, IsDigit is_digit) const {
    if (!is_digit(peek(offset))) return offset;
    while (is_digit(peek(offset)) || (peek(offset) == '_' && is_digit(peek(offset + 1)))) ++offset;
    return offset;
  }

  void read_number() {
    const size_t begin = at_;
    static constexpr struct {
      std::string_view prefixes;
      bool (*is_digit)(char);
    } kBases[] = {{"bB", [](char c) { return c == '0' || c == '1'; }},
                  {"oO", [](char c) { return c >= '0' && c <= '7'; }},
                  {"xX", [](char c) { return digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }}};
    for (const auto& base : kBases) {
      if (peek(begin) != '0' || base.prefixes.find(peek(begin + 1)) == std::string_view::npos) continue;
      const size_t first = begin + 2 + (peek(begin + 2) == '_' ? 1 : 0);
      const size_t end = after_digits(first, base.is_digit);
      if (end == first) break;
      at_ = end;
      return push(TokenType::integer, begin, end);
    }
    const size_t whole = after_digits(begin, digit);
    size_t end = whole;
    const bool after_dot = begin > 0 && source_[begin - 1] == '.';  // "a.0.1" indexes twice
    if (!after_dot) {
      if (peek(end) == '.' && digit(peek(end + 1))) end = after_digits(end + 1, digit);
      if (peek(end) == 'e' || peek(end) == 'E') {
        const size_t exponent = end + 1 + (peek(end + 1) == '-' || peek(end + 1) == '+' ? 1 : 0);
        if (digit(peek(exponent))) end = after_digits(exponent, digit);
      }
    }
    at_ = end;
    if (end > whole) return push(TokenType::floating, begin, end);
    if (source_[begin] == '0') at_ = end = after_digits(begin, [](char c) { return c == '0'; });
    push(TokenType::integer, begin, end);
  }

  std::string_view source_;
  std::vector<Lexeme> tokens_;
  size_t at_ = 0;
  bool line_starting_ = true;
};

// Reads up to `digits` digits of `base` at literal[at]; the number of them that must be there is `digits` if `exact`.
bool read_digits(std::string_view literal, size_t& at, int digits, int base, bool exact, char32_t& value) {
  value = 0;
  int count = 0;
  for (; count < digits && at < literal.size(); ++count, ++at) {
    const char c = literal[at];
    const int d = digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
    if (d >= base) break;
    value = value * static_cast<char32_t>(base) + static_cast<char32_t>(d);
  }
  return exact ? count == digits : count > 0;
}

}  // namespace

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::vector<Lexeme> tokenize(std::string_view source) {
  return Lexer(source).run();
}

std::string unescape(std::string_view literal, uint32_t offset) {
  static constexpr std::string_view kSimple = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";  // pairs: letter, character
  std::string out;
  out.reserve(literal.size());
  for (size_t i = 0; i < literal.size();) {
    if (literal[i] != '\\' || i + 1 >= literal.size()) {
      out += literal[i++];
      continue;
    }
    const char letter = literal[i + 1];
    i += 2;
    if (letter == '\n') continue;
    const auto simple = [&] {
      for (size_t k = 0; k < kSimple.size(); k += 2) {
        if (kSimple[k] == letter) return static_cast<int>(static_cast<unsigned char>(kSimple[k + 1]));
      }
      return -1;
    }();
    if (simple >= 0) {
      out += static_cast<char>(simple);
      continue;
    }
    char32_t value = 0;
    const int length = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (letter >= '0' && letter <= '7') {
      --i;
      read_digits(literal, i, 3, 8, false, value);
    } else if (length > 0) {
      const bool good = read_digits(literal, i, length, 16, true, value);
      if (!good || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        fail_at(offset, "invalid escape in a string");
    } else if (letter == 'N') {
      fail_at(offset, "named characters (\\N) are not supported");
    } else {
      out += '\\';
      out += letter;
      continue;
    }
    utf8::append(out, value);
  }
  return out;
}

}  // namespace martlet::jinja
