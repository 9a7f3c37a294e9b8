#include "base/utf8.h"

namespace martlet::utf8 {
namespace {

struct Lead {
  uint32_t length;    // 0: not a lead byte
  uint8_t low, high;  // allowed range of the second byte (excludes overlong forms and surrogates)
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xc2) return {0, 0, 0};
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

// How many bytes at `offset` form a valid prefix of a sequence, and whether the sequence is whole.
struct Scan {
  uint32_t matched;
  uint32_t wanted;
};

Scan scan(std::string_view text, size_t offset) {
  const Lead lead = lead_of(static_cast<uint8_t>(text[offset]));
  if (lead.length <= 1) return {lead.length, lead.length};
  uint32_t matched = 1;
  while (matched < lead.length && offset + matched < text.size()) {
    const auto byte = static_cast<uint8_t>(text[offset + matched]);
    const uint8_t low = matched == 1 ? lead.low : 0x80, high = matched == 1 ? lead.high : 0xbf;
    if (byte < low || byte > high) break;
    ++matched;
  }
  return {matched, lead.length};
}

}  // namespace

Decoded decode(std::string_view text, size_t offset) {
  const Scan found = scan(text, offset);
  if (found.matched == 0 || found.matched < found.wanted) return {0xfffd, found.matched ? found.matched : 1, false};
  const auto first = static_cast<uint8_t>(text[offset]);
  if (found.wanted == 1) return {first, 1, true};
  char32_t codepoint = first & (0x7f >> found.wanted);
  for (uint32_t i = 1; i < found.wanted; ++i)
    codepoint = codepoint << 6 | (static_cast<uint8_t>(text[offset + i]) & 0x3f);
  return {codepoint, found.wanted, true};
}

void append(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

size_t find_invalid(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    if (static_cast<uint8_t>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const Decoded d = decode(text, i);
    if (!d.valid) return i;
    i += d.length;
  }
  return std::string_view::npos;
}

size_t complete_prefix(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const size_t at = text.size() - back;
    if ((static_cast<uint8_t>(text[at]) & 0xc0) == 0x80) continue;
    const Scan found = scan(text, at);
    return found.wanted > 1 && found.matched == back && found.matched < found.wanted ? at : text.size();
  }
  return text.size();
}

std::string replace_invalid(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Decoded d = decode(text, i);
    if (d.valid)
      out.append(text, i, d.length);
    else
      append(out, 0xfffd);
    i += d.length;
  }
  return out;
}

}  // namespace martlet::utf8
