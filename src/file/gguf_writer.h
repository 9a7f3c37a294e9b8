#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/function_ref.h"
#include "file/gguf.h"
#include "tensor/tensor_view.h"

namespace martlet::gguf {

// The type id of a number type, a compile-time error for what GGUF cannot hold.
template <class Number>
consteval uint32_t type_id() {
  // bool and uint8_t are stored alike: bool belongs to the row that keeps a bool, everything else to the first that
  // stores it.
#define MARTLET_GGUF_NUMBER(name, id, stored, kept) \
  if (std::same_as<Number, bool> ? std::same_as<kept, bool> : std::same_as<Number, stored>) return id;
#include "file/gguf_numbers.def"
#undef MARTLET_GGUF_NUMBER
}

// Composes a GGUF version 3 file. Metadata first, in call order; then the tensors are declared; their data is asked for
// when the file is written, one tensor at a time, so that no more than one need be in memory.
class Writer {
 public:
  using Bytes = std::span<const std::byte>;

  explicit Writer(uint64_t alignment = kDefaultAlignment);  // a power of two, at least 8

  template <class Number>
  requires std::is_arithmetic_v<Number>
  void add(std::string_view key, Number value) {
    begin_value(key, type_id<Number>());
    put(value);
  }
  void add(std::string_view key, std::string_view text);
  void add(std::string_view key, const char* text) { add(key, std::string_view(text)); }
  template <class Number>
  void add_array(std::string_view key, std::span<const Number> values) {
    begin_array(key, type_id<Number>(), values.size());
    put_bytes(std::as_bytes(values));
  }
  void add_array(std::string_view key, std::span<const std::string_view> texts);

  // `shape`: one to four dimensions, the contiguous one first.
  void add_tensor(std::string_view name, Format format, std::span<const int64_t> shape);

  // The header, up to the data section.
  std::string header() const;
  // Hands the whole file to `sink`, piece by piece. `data(i)` gives the bytes of the i-th tensor; they are used before
  // the next call. The first error of either ends the writing.
  Status write(FunctionRef<Result<Bytes>(size_t)> data, FunctionRef<Status(Bytes)> sink) const;

 private:
  void begin_value(std::string_view key, uint32_t type);
  void begin_array(std::string_view key, uint32_t type, uint64_t count);
  template <class Number>
  void put(Number value) {
    put_bytes(std::as_bytes(std::span(&value, 1)));
  }
  void put(std::string_view text);
  void put_bytes(Bytes bytes) { metadata_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()); }

  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
    Format format;
    uint64_t offset, bytes;
  };

  uint64_t alignment_;
  uint64_t keys_ = 0;
  uint64_t data_bytes_ = 0;
  std::string metadata_;  // as it is written
  std::vector<Tensor> tensors_;
};

}  // namespace martlet::gguf
