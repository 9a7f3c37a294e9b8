#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace martlet::gguf {

// Reads forward through the bytes of a file and never past them. Reads return false at the end of the file; error()
// then says why. Strings and spans are borrowed from the bytes.
class Cursor {
 public:
  // `name`: the file's, for errors; must outlive the cursor.
  Cursor(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  size_t offset() const { return offset_; }
  uint64_t remaining() const { return bytes_.size() - offset_; }

  template <class Number>
  [[nodiscard]] bool read(Number& out) {
    if (!holds(1, sizeof out)) return false;
    std::memcpy(&out, bytes_.data() + offset_, sizeof out);
    offset_ += sizeof out;
    return true;
  }
  [[nodiscard]] bool read(std::string_view& out);  // u64 length, bytes
  [[nodiscard]] bool read_bytes(uint64_t count, uint64_t each, std::span<const std::byte>& out);

  // Whether the rest of the file can hold `count` items of at least `each` bytes. Nothing is reserved before this is
  // known.
  [[nodiscard]] bool holds(uint64_t count, uint64_t each) {
    missing_ = count;
    return count <= remaining() / each;
  }

  // After a failed read or holds().
  Error error() const;
  Error error(std::string code, std::string text, size_t offset) const;
  Error error(std::string code, std::string text, std::string_view at) const;  // `at`: a string inside the file

 private:
  std::span<const std::byte> bytes_;
  const std::string& name_;
  size_t offset_ = 0;
  uint64_t missing_ = 0;  // the last count that was asked for
};

}  // namespace martlet::gguf
