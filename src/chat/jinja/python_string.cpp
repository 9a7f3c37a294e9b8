#include "chat/jinja/python_string.h"

#include <string.h>

#include "base/checked.h"
#include "base/utf8.h"

namespace martlet::jinja {
namespace {

constexpr size_t kNone = std::string_view::npos;

char32_t codepoint_at(std::string_view text, size_t offset) {
  return utf8::decode(text, offset).codepoint;
}

// Start of the code point that ends at `end`.
size_t previous(std::string_view text, size_t end) {
  size_t begin = end - 1;
  for (int i = 0; i < 3 && begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80; ++i) --begin;
  return begin + utf8::decode(text, begin).length == end ? begin : end - 1;
}

// The length of the longest proper border of every prefix (Knuth, Morris, Pratt), for a needle read backwards.
Vector<uint32_t> backward_borders(std::string_view part) {
  const size_t n = part.size();
  Vector<uint32_t> border(n, 0);
  const auto at = [&](size_t i) { return part[n - 1 - i]; };
  for (size_t i = 1, k = 0; i < n; ++i) {
    while (k > 0 && at(i) != at(k)) k = border[k - 1];
    if (at(i) == at(k)) ++k;
    border[i] = static_cast<uint32_t>(k);
  }
  return border;
}

// Ends of occurrences of `part`, from the right, without overlap, until `limit` are found.
Vector<size_t> matches_from_right(std::string_view text, std::string_view part, Integer limit) {
  Vector<size_t> begins;
  if (part.size() > text.size()) return begins;
  work(units_of(text.size()));
  const Vector<uint32_t> border = backward_borders(part);
  size_t matched = 0;
  for (size_t i = text.size(); i-- > 0;) {
    if (limit >= 0 && begins.size() >= static_cast<size_t>(limit)) break;
    const auto wanted = [&] { return part[part.size() - 1 - matched]; };
    while (matched > 0 && text[i] != wanted()) matched = border[matched - 1];
    if (text[i] == wanted()) ++matched;
    if (matched < part.size()) continue;
    begins.push_back(i);
    matched = 0;
  }
  return begins;
}

Items split_space(const Text& text, Integer limit) {
  Items parts;
  const std::string_view bytes = text.view();
  size_t at = 0;
  while (true) {
    while (at < bytes.size() && is_space(codepoint_at(bytes, at))) at += utf8::decode(bytes, at).length;
    if (at >= bytes.size()) return parts;
    if (limit >= 0 && parts.size() >= static_cast<size_t>(limit)) {
      parts.push_back(strip(text.slice(at, bytes.size()), Side::right));
      return parts;
    }
    const size_t begin = at;
    while (at < bytes.size() && !is_space(codepoint_at(bytes, at))) at += utf8::decode(bytes, at).length;
    parts.push_back(text.slice(begin, at));
  }
}

Items rsplit_space(const Text& text, Integer limit) {
  Items parts;
  const std::string_view bytes = text.view();
  size_t end = bytes.size();
  while (true) {
    while (end > 0 && is_space(codepoint_at(bytes, previous(bytes, end)))) end = previous(bytes, end);
    if (end == 0) break;
    if (limit >= 0 && parts.size() >= static_cast<size_t>(limit)) {
      parts.push_back(strip(text.slice(0, end), Side::left));
      break;
    }
    size_t begin = end;
    while (begin > 0 && !is_space(codepoint_at(bytes, previous(bytes, begin)))) begin = previous(bytes, begin);
    parts.push_back(text.slice(begin, end));
    end = begin;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

void need_separator(const Text& separator) {
  if (separator.empty()) fail("empty separator");
}

bool is_line_end(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

size_t find(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return kNone;
  if (part.empty()) return from;
  if (part.size() > text.size() - from) return kNone;
  work(units_of(text.size() - from));
  // memmem is linear; std::string_view::find is not.
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found ? static_cast<size_t>(static_cast<const char*>(found) - text.data()) : kNone;
}

size_t rfind(std::string_view text, std::string_view part) {
  if (part.empty()) return text.size();
  const Vector<size_t> found = matches_from_right(text, part, 1);
  return found.empty() ? kNone : found.front();
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

Items characters(const Text& text) {
  Items out;
  out.reserve(text.length());
  const std::string_view bytes = text.view();
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = utf8::decode(bytes, at).length;
    out.push_back(text.slice(at, at + length));
    at += length;
  }
  return out;
}

size_t offset_of(const Text& text, size_t index) {
  if (text.ascii()) return std::min(index, text.size());
  work(units_of(text.size()));
  const std::string_view bytes = text.view();
  size_t at = 0;
  for (; index > 0 && at < bytes.size(); --index) at += utf8::decode(bytes, at).length;
  return at;
}

size_t index_of(const Text& text, size_t offset) {
  return text.slice(0, offset).length();
}

Text strip(const Text& text, Side side, const Text* characters) {
  work(units_of(text.size()));
  const std::string_view bytes = text.view();
  const std::string_view set = characters ? characters->view() : std::string_view();
  const auto drop = [&](size_t begin, size_t end) {
    if (!characters) return is_space(codepoint_at(bytes, begin));
    return find(set, bytes.substr(begin, end - begin)) != kNone;
  };
  size_t begin = 0, end = bytes.size();
  if (side != Side::right) {
    while (begin < end) {
      const size_t next = begin + utf8::decode(bytes, begin).length;
      if (!drop(begin, next)) break;
      begin = next;
    }
  }
  if (side != Side::left) {
    while (end > begin) {
      const size_t last = previous(bytes, end);
      if (!drop(last, end)) break;
      end = last;
    }
  }
  return text.slice(begin, end);
}

Items split(const Text& text, const Text* separator, Integer limit) {
  work(units_of(text.size()));
  if (!separator) return split_space(text, limit);
  need_separator(*separator);
  Items parts;
  size_t begin = 0;
  while (limit < 0 || parts.size() < static_cast<size_t>(limit)) {
    const size_t at = find(text.view(), separator->view(), begin);
    if (at == kNone) break;
    parts.push_back(text.slice(begin, at));
    begin = at + separator->size();
  }
  parts.push_back(text.slice(begin, text.size()));
  return parts;
}

Items rsplit(const Text& text, const Text* separator, Integer limit) {
  work(units_of(text.size()));
  if (!separator) return rsplit_space(text, limit);
  need_separator(*separator);
  Items parts;
  size_t end = text.size();
  for (const size_t at : matches_from_right(text.view(), separator->view(), limit)) {
    parts.push_back(text.slice(at + separator->size(), end));
    end = at;
  }
  parts.push_back(text.slice(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Items split_lines(const Text& text, bool keep_ends) {
  work(units_of(text.size()));
  Items lines;
  const std::string_view bytes = text.view();
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const utf8::Decoded decoded = utf8::decode(bytes, at);
    size_t next = at + decoded.length;
    if (is_line_end(decoded.codepoint)) {
      if (decoded.codepoint == '\r' && next < bytes.size() && bytes[next] == '\n') ++next;
      lines.push_back(text.slice(begin, keep_ends ? next : at));
      begin = next;
    }
    at = next;
  }
  if (begin < bytes.size()) lines.push_back(text.slice(begin, bytes.size()));
  return lines;
}

Text replace(const Text& text, const Text& old, const Text& with, Integer limit) {
  TextBuilder out;
  const auto more = [&] { return limit < 0 || limit-- > 0; };
  const std::string_view bytes = text.view();
  size_t begin = 0;
  if (old.empty()) {  // before every code point and at the end
    for (size_t at = 0; at <= bytes.size() && more();) {
      out.append(with);
      begin = at < bytes.size() ? at + utf8::decode(bytes, at).length : at;
      out.append(text.slice(at, begin));
      at = begin + (at == bytes.size() ? 1 : 0);
    }
  } else {
    while (more()) {
      const size_t at = find(bytes, old.view(), begin);
      if (at == kNone) break;
      out.append(text.slice(begin, at));
      out.append(with);
      begin = at + old.size();
    }
    if (begin == 0) return text;
  }
  out.append(text.slice(begin, text.size()));
  return out.take();
}

size_t count(const Text& text, std::string_view part) {
  if (part.empty()) return text.length() + 1;
  size_t found = 0;
  for (size_t at = find(text.view(), part); at != kNone; at = find(text.view(), part, at + part.size())) ++found;
  return found;
}

Text pad(const Text& text, Integer width, const Text& fill, Side side) {
  if (fill.length() != 1) fail("the fill character must be exactly one character long");
  const Integer missing = width - static_cast<Integer>(text.length());
  if (missing <= 0) return text;
  // Where both sides grow and the number is odd, str.center puts the extra one left only if the width is odd too.
  const Integer left = side == Side::left ? missing : side == Side::right ? 0 : missing / 2 + (missing & width & 1);
  TextBuilder out;
  out.append(repeat(fill, left));
  out.append(text);
  out.append(repeat(fill, missing - left));
  return out.take();
}

Text repeat(const Text& text, Integer times) {
  if (times <= 0 || text.empty()) return Text().with_markup(text.markup());
  const Checked size = Checked(static_cast<uint64_t>(text.size())) * Checked(static_cast<uint64_t>(times));
  if (!size.within(size_t{1} << 30)) exceed("a repeated string is too long");
  TextBuilder out;
  out.reserve(*size.get());
  for (Integer i = 0; i < times; ++i) out.append(text);
  return out.take().with_markup(text.markup());
}

Text expand_tabs(const Text& text, Integer width) {
  TextBuilder out;
  Integer column = 0;
  for (const Value& character : characters(text)) {
    const std::string_view bytes = character.text()->view();
    if (bytes == "\t") {
      const Integer spaces = width > 0 ? width - column % width : 0;
      out.append(repeat(Text(" ", false), spaces));
      column += spaces;
      continue;
    }
    out.append(*character.text());
    column = bytes == "\n" || bytes == "\r" ? 0 : column + 1;
  }
  return out.take();
}

Text escape_html(const Text& text) {
  if (text.markup()) return text;
  TextBuilder out;
  text.for_each_run([&out](std::string_view bytes, bool trusted) {
    work(units_of(bytes.size()));
    for (const char c : bytes) {
      switch (c) {
        case '&':
          out.append("&amp;", trusted);
          break;
        case '<':
          out.append("&lt;", trusted);
          break;
        case '>':
          out.append("&gt;", trusted);
          break;
        case '"':
          out.append("&#34;", trusted);
          break;
        case '\'':
          out.append("&#39;", trusted);
          break;
        default:
          out.append(std::string_view(&c, 1), trusted);
      }
    }
  });
  return out.take().with_markup(true);
}

SliceRange slice_range(size_t length, std::optional<Integer> start, std::optional<Integer> stop,
                       std::optional<Integer> step) {
  const Integer n = static_cast<Integer>(length), by = step.value_or(1);
  if (by == 0) fail("slice step cannot be zero");
  const auto clamp = [&](std::optional<Integer> position, Integer fallback) {
    if (!position) return fallback;
    Integer p = *position < 0 ? *position + n : *position;
    return std::clamp(p, by < 0 ? Integer{-1} : Integer{0}, by < 0 ? n - 1 : n);
  };
  const Integer from = clamp(start, by < 0 ? n - 1 : 0);
  const Integer to = clamp(stop, by < 0 ? -1 : n);
  const Integer distance = by < 0 ? from - to : to - from;
  if (distance <= 0) return {from, by, 0};
  const uint64_t stride = by < 0 ? uint64_t{0} - static_cast<uint64_t>(by) : static_cast<uint64_t>(by);
  return {from, by, static_cast<size_t>((static_cast<uint64_t>(distance) - 1) / stride + 1)};
}

Text slice(const Text& text, const SliceRange& range) {
  if (range.count == 0) return Text().with_markup(text.markup());
  if (range.step == 1) {
    const size_t begin = offset_of(text, static_cast<size_t>(range.start));
    const Text rest = text.slice(begin, text.size());
    return rest.slice(0, offset_of(rest, range.count));
  }
  const Items all = characters(text);
  TextBuilder out;
  for (size_t i = 0; i < range.count; ++i) {
    out.append(*all[static_cast<size_t>(range.start + static_cast<Integer>(i) * range.step)].text());
  }
  return out.take().with_markup(text.markup());
}

}  // namespace martlet::jinja
