#pragma once

// The alphabet of byte-level vocabularies (GPT-2): every byte is written as one printable character. Printable Latin-1
// stands for itself, the 68 other bytes for U+0100 onwards in ascending order.

#include <array>
#include <string>
#include <string_view>

namespace martlet {

class ByteAlphabet {
 public:
  static const ByteAlphabet& instance();

  std::string_view letter(uint8_t byte) const {
    return {letters_[byte].data(), letters_[byte][1] ? size_t{2} : size_t{1}};
  }
  // The bytes that `piece` stands for, appended to `out`. A piece that holds other characters stands for itself.
  void decode(std::string_view piece, std::string& out) const;

 private:
  ByteAlphabet();
  static constexpr uint16_t kFirst = 0x100, kCount = 68;
  std::array<std::array<char, 2>, 256> letters_{};
  std::array<int16_t, kFirst + kCount> bytes_{};  // by code point, -1: not of the alphabet
};

}  // namespace martlet
