#include "file/gguf_cursor.h"

#include <utility>

namespace martlet::gguf {
namespace {

// A count at or above this was never written by a program; one below it, larger than the file, means that the file was
// cut short.
constexpr uint64_t kAbsurdCount = 1 << 24;

}  // namespace

bool Cursor::read(std::string_view& out) {
  const size_t begin = offset_;
  uint64_t length = 0;
  std::span<const std::byte> bytes;
  if (!read(length)) return false;
  if (!read_bytes(length, 1, bytes)) {
    offset_ = begin;
    return false;
  }
  out = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  return true;
}

bool Cursor::read_bytes(uint64_t count, uint64_t each, std::span<const std::byte>& out) {
  if (!holds(count, each)) return false;
  out = bytes_.subspan(offset_, count * each);
  offset_ += out.size();
  return true;
}

Error Cursor::error() const {
  if (missing_ >= kAbsurdCount)
    return error("count_exceeds_file", "a count or length is larger than the file; the file is damaged", offset_);
  return error("tensor_out_of_file", "the file ends before its tensors: it was cut short; fetch it again", offset_);
}

Error Cursor::error(std::string code, std::string text, size_t offset) const {
  return {ErrorKind::model, std::move(code), std::move(text), name_ + "@" + std::to_string(offset)};
}

Error Cursor::error(std::string code, std::string text, std::string_view at) const {
  const auto* place = reinterpret_cast<const std::byte*>(at.data());
  return error(std::move(code), std::move(text), static_cast<size_t>(place - bytes_.data()));
}

}  // namespace martlet::gguf
