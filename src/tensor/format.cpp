#include "tensor/format.h"

#include <cstddef>
#include <iterator>

namespace martlet {
namespace {

constexpr FormatInfo kFormats[] = {
#define MARTLET_FORMAT(name, id, elements, bytes, computes) {Format::name, #name, id, elements, bytes, computes},
#include "tensor/formats.def"
#undef MARTLET_FORMAT
};

}  // namespace

const FormatInfo& info(Format format) { return kFormats[static_cast<size_t>(format)]; }

std::optional<Format> format_from_gguf(uint32_t id) {
  for (const FormatInfo& f : kFormats) {
    if (f.gguf_id == id) return f.format;
  }
  return std::nullopt;
}

}  // namespace martlet
