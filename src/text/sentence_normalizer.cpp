#include "text/sentence_normalizer.h"

#include "base/utf8.h"
#include "text/sentence_text.h"
#include "text/vocabulary.h"

namespace martlet {
namespace {

uint32_t load_u32(std::string_view bytes) {  // little-endian
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= uint32_t{static_cast<uint8_t>(bytes[i])} << 8 * i;
  return value;
}

}  // namespace

Result<SentenceNormalizer> SentenceNormalizer::create(std::string_view charsmap, bool removes_extra_spaces) {
  SentenceNormalizer out;
  out.removes_extra_spaces_ = removes_extra_spaces;
  if (charsmap.empty()) return out;
  const size_t trie_bytes = charsmap.size() >= 4 ? load_u32(charsmap) : 0;
  if (trie_bytes == 0 || trie_bytes % 4 != 0 || trie_bytes > charsmap.size() - 4 || charsmap.back() != '\0') {
    return bad_vocabulary("the table of tokenizer.ggml.precompiled_charsmap is not as long as it says");
  }
  for (size_t i = 0; i < trie_bytes; i += 4) out.units_.push_back(load_u32(charsmap.substr(4 + i)));
  out.replacements_ = charsmap.substr(4 + trie_bytes);
  return out;
}

SentenceNormalizer::Replacement SentenceNormalizer::find(std::string_view text) const {
  constexpr uint32_t kLabel = 1u << 31 | 0xff, kHasValue = 1u << 8;
  const auto offset = [](uint32_t unit) { return (unit >> 10) << ((unit & 1u << 9) >> 6); };
  Replacement best;
  if (units_.empty()) return best;
  uint32_t node = offset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || (units_[node] & kLabel) != byte) break;
    const uint32_t unit = units_[node];
    node ^= offset(unit);
    if (!(unit & kHasValue) || node >= units_.size()) continue;
    const uint32_t at = units_[node] & ~(1u << 31);
    if (at < replacements_.size()) best = {i + 1, replacements_.data() + at};
  }
  return best;
}

void SentenceNormalizer::append(std::string_view text, bool prefix, std::string& out) const {
  // Runs of spaces wait until something follows them: what is left of one depends on that.
  size_t spaces = 0;
  bool begun = false;
  const auto put = [&](std::string_view part) {
    for (const char c : part) {
      if (c == ' ') {
        ++spaces;
        continue;
      }
      if (removes_extra_spaces_) spaces = begun && spaces ? 1 : 0;
      if (!begun && prefix) ++spaces;
      for (; spaces > 0; --spaces) out += kSpaceMark;
      out += c;
      begun = true;
    }
  };
  for (size_t at = 0; at < text.size();) {
    if (const Replacement found = find(text.substr(at)); found.length > 0) {
      put(found.text);
      at += found.length;
      continue;
    }
    const utf8::Decoded d = utf8::decode(text, at);
    put(text.substr(at, d.length));
    at += d.length;
  }
  if (removes_extra_spaces_ || text.empty()) return;
  if (!begun && prefix) ++spaces;
  for (; spaces > 0; --spaces) out += kSpaceMark;
}

}  // namespace martlet
