#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/cpu/kernels/linear.h"
#include "base/error.h"
#include "tensor/tensor_view.h"

namespace martlet::cpu {

// One matrix of a weight, as it lies in the file.
struct Segment {
  TensorView view;
  ActivationKind kind;
  int64_t first_row;   // in the weight
  int64_t first_tile;  // tiles of kLinearTile rows, which never cross segments
};

struct StoredWeight {
  ModelId model;
  int64_t columns = 0, rows = 0, tiles = 0;
  std::vector<Segment> segments;
  std::vector<float> bias;    // one a row, or empty
  std::vector<float> vector;  // of a weight with one row: its values
};

// Errors (model): "unsupported_format", "bad_tensor" for what does not stack.
Result<StoredWeight> store_weight(ModelId model, std::span<const TensorView> stacked, const UploadOptions& options);

}  // namespace martlet::cpu
