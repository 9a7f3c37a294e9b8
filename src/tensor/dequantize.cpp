#include "tensor/dequantize.h"

#include <cassert>
#include <cstring>

#include "tensor/unpack.h"

namespace martlet {
namespace {

using UnpackRow = void (*)(const std::byte* data, int64_t elements, float* out);

constexpr struct {
  uint32_t elements, bytes;
} kLayouts[] = {
#define MARTLET_FORMAT(name, id, elements, bytes, computes) {elements, bytes},
#include "tensor/formats.def"
#undef MARTLET_FORMAT
};

template <Format format, class Block>
void unpack_row(const std::byte* data, int64_t elements, float* out) {
  constexpr auto layout = kLayouts[static_cast<size_t>(format)];
  static_assert(sizeof(Block) == layout.bytes);
  for (int64_t i = 0; i < elements; i += layout.elements, data += sizeof(Block), out += layout.elements) {
    Block block;  // copied, because blocks of odd sizes lie at odd addresses
    std::memcpy(&block, data, sizeof block);
    unpack(block, out);
  }
}

struct Row {
  Format format;
  UnpackRow unpack;
};

#define MARTLET_ROW(name) \
  { Format::name, unpack_row<Format::name, Block##name> }
constexpr Row kRows[] = {
    MARTLET_ROW(F32),    MARTLET_ROW(F16),   MARTLET_ROW(BF16), MARTLET_ROW(Q4_0),
    MARTLET_ROW(Q4_1),   MARTLET_ROW(Q5_0),  MARTLET_ROW(Q5_1), MARTLET_ROW(Q8_0),
    MARTLET_ROW(IQ4_NL), MARTLET_ROW(MXFP4), MARTLET_ROW(Q2_K), MARTLET_ROW(Q3_K),
    MARTLET_ROW(Q4_K),   MARTLET_ROW(Q5_K),  MARTLET_ROW(Q6_K), MARTLET_ROW(IQ4_XS),
};
#undef MARTLET_ROW

}  // namespace

void dequantize_row(const TensorView& tensor, int64_t row, std::span<float> out) {
  assert(info(tensor.format).computes && row >= 0 && row < tensor.rows());
  assert(static_cast<int64_t>(out.size()) >= tensor.columns());
  for (const Row& entry : kRows) {
    if (entry.format == tensor.format) {
      return entry.unpack(tensor.data + row * tensor.row_bytes(), tensor.columns(), out.data());
    }
  }
  assert(false && "every format that computes has a row in kRows");
}

}  // namespace martlet
