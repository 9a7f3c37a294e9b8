#pragma once

// GGUF files as strings: valid ones by the Writer, hostile ones field by field.

#include <gtest/gtest.h>

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "file/gguf_writer.h"
#include "file/model_file.h"

namespace martlet {

// Writes fields as they come; nothing is checked.
struct RawGguf {
  std::string bytes;

  template <class Number>
  RawGguf& number(Number value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  RawGguf& text(std::string_view text) {
    number(uint64_t{text.size()});
    bytes += text;
    return *this;
  }
  RawGguf& header(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    bytes += "GGUF";
    return number(version).number(tensors).number(keys);
  }
  RawGguf& tensor(std::string_view name, const std::vector<int64_t>& shape, uint32_t format, uint64_t offset) {
    text(name).number(static_cast<uint32_t>(shape.size()));
    for (const int64_t dimension : shape) number(dimension);
    return number(format).number(offset);
  }
  // Ends the header and adds `size` bytes of data.
  RawGguf& data(size_t size, size_t alignment = 32) {
    bytes.append(-bytes.size() % alignment + size, '\0');
    return *this;
  }
};

inline std::string written(const gguf::Writer& writer, const std::vector<std::string>& tensors) {
  std::string file;
  const auto data = [&](size_t i) -> Result<gguf::Writer::Bytes> { return std::as_bytes(std::span(tensors[i])); };
  const auto sink = [&](gguf::Writer::Bytes bytes) -> Status {
    file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  };
  EXPECT_TRUE(writer.write(data, sink));
  return file;
}

// A small valid model file with metadata of every type and three tensors.
std::string small_model(uint64_t alignment = 32);

inline Result<std::shared_ptr<const ModelFile>> parse(const std::string& file) {
  return ModelFile::from_memory(std::as_bytes(std::span(file)), "test.gguf");
}

// The code of the error that `file` opens with; "ok" when it opens.
inline std::string code_of(const std::string& file) {
  const auto model = parse(file);
  return model ? "ok" : model.error().code;
}

}  // namespace martlet
