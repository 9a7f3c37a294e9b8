#include "base/printable.h"

#include "base/utf8.h"

namespace martlet {

std::string printable(std::string_view text, std::string_view kept) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const utf8::Decoded d = utf8::decode(text, i);
    const bool control = d.codepoint < 0x20 || (d.codepoint >= 0x7f && d.codepoint < 0xa0);
    utf8::append(out, control && kept.find(text[i]) == kept.npos ? U'?' : d.codepoint);
    i += d.length;
  }
  return out;
}

}  // namespace martlet
