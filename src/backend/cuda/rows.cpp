#include <algorithm>
#include <cassert>

#include "backend/cuda/operators.h"

namespace martlet::cuda {
namespace {

// What halves count in where nothing bounds the values: 4 million is the largest, and the smallest normal one 0.004.
constexpr float kWideScale = 64;
// The same for rows that still want the scaling of their norm: one million, and 0.001.
constexpr float kNormScale = 16;

}  // namespace

Tensor CudaBackend::embed(Weight table) {
  const StoredWeight& weight = stored(table);
  assert(weight.segments.size() == 1);
  Tensor out = memory_.floats(rows_, weight.columns);
  cuda::embed(stream_, weight.segments[0].device, input_.tokens(), rows_, static_cast<int32_t>(weight.columns),
              buffer_of(out).values.as<float>());
  return out;
}

Tensor CudaBackend::norm(const Tensor& x, const Norm& norm) {
  assert(norm.kind == Norm::Kind::rms && x.columns == stored(norm.weight).columns);
  if (fuses(buffer_of(x).product, x.rows)) return norm_of_product(x, norm);
  const float* from = values(x);
  Tensor out = memory_.halves(x.rows, x.columns, 1);
  Buffer& to = buffer_of(out);
  rms_norm(stream_, from, vector(norm.weight), norm.epsilon, static_cast<int32_t>(x.rows),
           static_cast<int32_t>(x.columns), to.halves.as<__half>(), to.stride);
  return out;
}

// The product leaves its sums of squares, and its values times the norm's weight; whoever reads those scales them.
Tensor CudaBackend::norm_of_product(const Tensor& x, const Norm& norm) {
  Buffer& from = buffer_of(x);
  const int32_t tiles = stored(from.product.weight).tiles;
  Block values = memory_.take(x.rows * x.columns * static_cast<int64_t>(sizeof(float)));
  Tensor out = memory_.halves(x.rows, x.columns, kNormScale);
  Buffer& to = buffer_of(out);
  to.squares = memory_.take(x.rows * tiles * static_cast<int64_t>(sizeof(float)));
  to.square_tiles = tiles;
  to.epsilon = norm.epsilon;
  for (int64_t at = 0; at < x.rows; at += kFewRows) {
    LinearArguments arguments = few_rows(from.product, at, std::min<int64_t>(kFewRows, x.rows - at));
    arguments.y = values.as<float>() + at * x.columns;
    arguments.norm_weight = vector(norm.weight);
    arguments.normed = to.halves.as<__half>() + at * to.stride;
    arguments.normed_stride = to.stride;
    arguments.normed_scale = to.scale;
    arguments.squares_out = to.squares.as<float>() + at * tiles;
    linear_rows(stream_, arguments);
  }
  from.values = std::move(values);
  from.product = {};
  return out;
}

Tensor CudaBackend::activate(const Tensor& x, Activation activation) {
  assert(activation == Activation::silu_gated && x.columns % 2 == 0);
  const int64_t columns = x.columns / 2;
  const Product& product = buffer_of(x).product;
  const auto gate_and_up = [&] {
    const auto& segments = stored(product.weight).segments;
    return segments.size() == 2 && segments[0].device.rows == segments[1].device.rows &&
           segments[0].device.format == segments[1].device.format;
  };
  if (fuses(product, x.rows) && !product.residual && gate_and_up()) {
    Tensor out = memory_.halves(x.rows, columns, kWideScale);
    Buffer& to = buffer_of(out);
    for (int64_t at = 0; at < x.rows; at += kFewRows) {
      LinearArguments arguments = few_rows(product, at, std::min<int64_t>(kFewRows, x.rows - at));
      arguments.gated = to.halves.as<__half>() + at * to.stride;
      arguments.gated_stride = to.stride;
      arguments.gated_scale = to.scale;
      linear_rows(stream_, arguments);
    }
    return out;
  }
  const auto finish = [&](auto* from, float scale) {
    Tensor out = memory_.halves(x.rows, columns, kWideScale);
    Buffer& to = buffer_of(out);
    silu_gated(stream_, from, scale, static_cast<int32_t>(x.rows), static_cast<int32_t>(columns),
               to.halves.as<__half>(), to.stride, to.scale);
    return out;
  };
  if (product && !product.residual && !stored(product.weight).bias && by_library(stored(product.weight), x.rows)) {
    // Rounded to halves: the values are written and read once, and are most of what a long prompt moves.
    const Block both = memory_.take(x.rows * x.columns * static_cast<int64_t>(sizeof(__half)));
    multiply_segments(product, 0, x.rows, {both.as<__half>(), CUDA_R_16F, kNormScale, 0});
    return finish(both.as<const __half>(), kNormScale);
  }
  return finish(values(x), 1);
}

Tensor CudaBackend::gather_outputs(const Tensor& x) {
  if (all_rows_are_outputs_) {
    if (invariant_) values(x);  // as rows that are gathered: the norm that follows is not fused
    return x;
  }
  const float* from = values(x);
  Tensor out = memory_.floats(output_rows_, x.columns);
  gather(stream_, from, input_.outputs(), output_rows_, static_cast<int32_t>(x.columns),
         buffer_of(out).values.as<float>());
  return out;
}

void CudaBackend::widen_rows(const Buffer& from, int64_t columns, int64_t first, int64_t rows, float* y) {
  const float* squares = from.squares ? from.squares.as<float>() + first * from.square_tiles : nullptr;
  widen(stream_, from.halves.as<__half>() + first * from.stride, static_cast<int32_t>(rows),
        static_cast<int32_t>(columns), from.stride, from.scale, {squares, from.square_tiles, from.epsilon}, y);
}

// The tensor's values as f32, computed now when they are not there.
const float* CudaBackend::values(const Tensor& tensor) {
  Buffer& buffer = buffer_of(tensor);
  if (buffer.values) return buffer.values.as<float>();
  if (const Tensor& residual = buffer.product.residual; residual.unique()) {
    // Nobody else reads the residual: the sum takes its place.
    values(residual);
    Block& sums = buffer_of(residual).values;
    multiply(buffer.product, 0, tensor.rows, sums.as<float>());
    buffer.values = std::move(sums);
  } else {
    Block block = memory_.take(tensor.rows * tensor.columns * static_cast<int64_t>(sizeof(float)));
    if (buffer.product) {
      multiply(buffer.product, 0, tensor.rows, block.as<float>());
    } else {
      widen_rows(buffer, tensor.columns, 0, tensor.rows, block.as<float>());
    }
    buffer.values = std::move(block);
  }
  buffer.product = {};
  return buffer.values.as<float>();
}

// The same as halves times buffer.scale.
const __half* CudaBackend::halves(const Tensor& tensor) {
  Buffer& buffer = buffer_of(tensor);
  if (buffer.halves) return buffer.halves.as<__half>();
  const float* from = values(tensor);
  buffer.stride = padded(tensor.columns);
  buffer.scale = kWideScale;
  buffer.halves = memory_.take(tensor.rows * buffer.stride * static_cast<int64_t>(sizeof(__half)));
  narrow(stream_, from, static_cast<int32_t>(tensor.rows), static_cast<int32_t>(tensor.columns),
         buffer.halves.as<__half>(), buffer.stride, buffer.scale);
  return buffer.halves.as<__half>();
}

void CudaBackend::read(const Tensor& tensor, std::span<float> out) {
  assert(static_cast<int64_t>(out.size()) == tensor.rows * tensor.columns);
  const auto copy = [&](const float* from, size_t at, size_t count) {
    stream_.check(
        cudaMemcpyAsync(out.data() + at, from, count * sizeof(float), cudaMemcpyDeviceToHost, stream_.handle));
    stream_.check(cudaStreamSynchronize(stream_.handle));
  };
  Buffer& buffer = buffer_of(tensor);
  if (buffer.values) return copy(buffer.values.as<float>(), 0, out.size());
  // Through memory outside the step's, which what a graph left may overlap.
  const int64_t row_bytes = tensor.columns * static_cast<int64_t>(sizeof(float));
  const int64_t at_once = std::max<int64_t>(1, std::min<int64_t>(kFewRows, unpacked_.size() / row_bytes));
  for (int64_t first = 0; first < tensor.rows; first += at_once) {
    const int64_t rows = std::min(at_once, tensor.rows - first);
    if (buffer.product) {
      multiply(buffer.product, first, rows, unpacked_.as<float>());
    } else {
      widen_rows(buffer, tensor.columns, first, rows, unpacked_.as<float>());
    }
    copy(unpacked_.as<float>(), static_cast<size_t>(first * tensor.columns),
         static_cast<size_t>(rows * tensor.columns));
  }
}

}  // namespace martlet::cuda
