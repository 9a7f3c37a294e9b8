#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/format.h"

namespace martlet {

// A tensor as it lies in a mapped file. Borrowed: valid while the file is. shape[0] is the contiguous (column)
// dimension, as in GGUF; a matrix that maps K inputs to N outputs has shape {K, N, 1, 1} and rows of bytes_of(format,
// K) bytes.
struct TensorView {
  const std::byte* data = nullptr;
  Format format = Format::F32;
  std::array<int64_t, 4> shape = {0, 1, 1, 1};

  int64_t columns() const { return shape[0]; }
  int64_t rows() const { return shape[1] * shape[2] * shape[3]; }
  int64_t row_bytes() const { return bytes_of(format, shape[0]); }
  int64_t bytes() const { return row_bytes() * rows(); }
};

}  // namespace martlet
