#include "backend/cpu/weights.h"

#include <string>

#include "tensor/dequantize.h"

namespace martlet::cpu {
namespace {

Status check(const TensorView& view) {
  const FormatInfo& format = info(view.format);
  if (!format.computes) {
    return Error{ErrorKind::model, "unsupported_format",
                 "the model has tensors of type " + std::string(format.name) + ", which cannot be computed with", ""};
  }
  if (view.columns() < 1 || view.rows() < 1 || view.columns() % format.block_elements != 0)
    return Error{ErrorKind::model, "bad_tensor", "a tensor's rows do not consist of whole blocks of its format", ""};
  return {};
}

Status append_bias(std::vector<float>& out, const TensorView& bias, int64_t rows) {
  MARTLET_TRY(check(bias));
  if (bias.rows() != 1 || bias.columns() != rows)
    return Error{ErrorKind::model, "bad_tensor", "a bias has not one value for each row of its matrix", ""};
  const size_t old = out.size();
  out.resize(old + static_cast<size_t>(rows));
  dequantize_row(bias, 0, std::span(out).subspan(old));
  return {};
}

}  // namespace

Result<StoredWeight> store_weight(ModelId model, std::span<const TensorView> stacked, const UploadOptions& options) {
  StoredWeight out;
  out.model = model;
  if (stacked.empty() || (!options.bias.empty() && options.bias.size() != stacked.size()))
    return Error{ErrorKind::model, "bad_tensor", "a stack of tensors is empty, or its biases are not one for each", ""};
  out.columns = stacked[0].columns();
  for (size_t i = 0; i < stacked.size(); ++i) {
    const TensorView& view = stacked[i];
    MARTLET_TRY(check(view));
    if (view.columns() != out.columns)
      return Error{ErrorKind::model, "bad_tensor", "stacked tensors have different numbers of columns", ""};
    out.segments.push_back({view, activation_kind(view.format), out.rows, out.tiles});
    out.rows += view.rows();
    out.tiles += (view.rows() + kLinearTile - 1) / kLinearTile;
    if (!options.bias.empty()) MARTLET_TRY(append_bias(out.bias, options.bias[i], view.rows()));
  }
  if (out.rows == 1) {
    out.vector.resize(static_cast<size_t>(out.columns));
    dequantize_row(stacked[0], 0, out.vector);
  }
  return out;
}

}  // namespace martlet::cpu
