#include "tensor/format.h"

#include <cstddef>
#include <utility>

namespace martlet {
namespace {

constexpr FormatInfo kFormats[] = {
#define MARTLET_FORMAT(name, id, elements, bytes, computes) {Format::name, #name, id, elements, bytes, computes},
#include "tensor/formats.def"
#undef MARTLET_FORMAT
};

}  // namespace

const FormatInfo& info(Format format) {
  return kFormats[static_cast<size_t>(format)];
}

std::optional<Format> format_from_gguf(uint32_t id) {
  for (const FormatInfo& f : kFormats) {
    if (f.gguf_id == id) return f.format;
  }
  return std::nullopt;
}

Error unsupported_format(Format format, std::string where) {
  std::string text =
      "tensors stored as " + std::string(info(format).name) + " cannot be computed with; choose a file of";
  for (const FormatInfo& f : kFormats) {
    if (f.computes) (text += ' ') += f.name;
  }
  return {ErrorKind::model, "unsupported_format", std::move(text), std::move(where)};
}

}  // namespace martlet
