#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace martlet {

// How a tensor is stored. One row of formats.def each.
enum class Format : uint8_t {
#define MARTLET_FORMAT(name, id, elements, bytes, computes) name,
#include "tensor/formats.def"
#undef MARTLET_FORMAT
};

struct FormatInfo {
  Format format;
  std::string_view name;
  uint32_t gguf_id;
  uint32_t block_elements, block_bytes;
  bool computes;
};

const FormatInfo& info(Format format);
std::optional<Format> format_from_gguf(uint32_t id);

// What whoever needs to compute with a tensor of a format that does not compute says. `where`: the file.
Error unsupported_format(Format format, std::string where);

// Bytes of `elements` consecutive elements; a multiple of the block size.
inline int64_t bytes_of(Format format, int64_t elements) {
  const FormatInfo& f = info(format);
  return elements / f.block_elements * f.block_bytes;
}

}  // namespace martlet
