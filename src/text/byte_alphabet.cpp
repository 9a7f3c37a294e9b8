#include "text/byte_alphabet.h"

#include "base/utf8.h"

namespace martlet {

const ByteAlphabet& ByteAlphabet::instance() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

ByteAlphabet::ByteAlphabet() {
  bytes_.fill(-1);
  uint16_t next = kFirst;
  for (uint16_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    const uint16_t codepoint = printable ? byte : next++;
    bytes_[codepoint] = static_cast<int16_t>(byte);
    std::string letter;
    utf8::append(letter, codepoint);
    letter.copy(letters_[byte].data(), 2);
  }
}

void ByteAlphabet::decode(std::string_view piece, std::string& out) const {
  const size_t start = out.size();
  for (size_t i = 0; i < piece.size();) {
    const auto first = static_cast<uint8_t>(piece[i]);
    // Every code point below 0x144 takes one byte, or two of which the first is at most 0xc5.
    uint32_t codepoint = first;
    if (first >= 0x80) {
      if (first > 0xc5 || i + 1 == piece.size())
        codepoint = bytes_.size();
      else
        codepoint = (first & 0x1fu) << 6 | (static_cast<uint8_t>(piece[i + 1]) & 0x3fu);
    }
    if (codepoint >= bytes_.size() || bytes_[codepoint] < 0) {
      out.resize(start);
      out.append(piece);
      return;
    }
    out += static_cast<char>(bytes_[codepoint]);
    i += first < 0x80 ? 1 : 2;
  }
}

}  // namespace martlet
