#include <algorithm>
#include <cassert>

#include "backend/cuda/operators.h"

namespace martlet::cuda {
namespace {

// Without a copy in halves, up to this many rows are cheaper a few at a time than by unpacking the weight first.
constexpr int64_t kRowsBeforeUnpacking = 4 * kFewRows;

}  // namespace

Tensor CudaBackend::linear(const Tensor& x, Weight weight, const Tensor* residual) {
  assert(x.columns == stored(weight).columns && !stored(weight).segments.empty());
  assert(!residual || (residual->rows == x.rows && residual->columns == stored(weight).rows));
  weights_[static_cast<size_t>(weight.id)]->multiplied = true;
  return memory_.defer(x.rows, stored(weight).rows, {x, residual ? *residual : Tensor(), weight});
}

LinearArguments CudaBackend::few_rows(const Product& product, int64_t first_row, int64_t rows) {
  const StoredWeight& weight = stored(product.weight);
  LinearArguments out;
  out.segment_count = static_cast<int32_t>(weight.segments.size());
  for (size_t s = 0; s < weight.segments.size(); ++s) out.segments[s] = weight.segments[s].device;
  out.tiles = weight.tiles;
  out.blocks = multiprocessors_;
  out.shared_bytes = shared_bytes_;
  out.columns = static_cast<int32_t>(weight.rows);
  const Buffer& x = buffer_of(product.x);
  out.x = halves(product.x) + first_row * x.stride;
  out.x_scale = x.scale;
  if (x.squares) {
    out.squares = x.squares.as<float>() + first_row * x.square_tiles;
    out.square_tiles = x.square_tiles;
    out.norm_columns = static_cast<int32_t>(product.x.columns);
    out.epsilon = x.epsilon;
  }
  out.rows = static_cast<int32_t>(rows);
  out.bias = weight.bias.as<float>();
  if (product.residual) out.residual = values(product.residual) + first_row * weight.rows;
  return out;
}

bool CudaBackend::has_halves(const StoredWeight& weight) const {
  return std::ranges::all_of(weight.segments,
                             [](const StoredSegment& s) { return s.device.format == Format::F16 || s.copy; });
}

bool CudaBackend::by_library(const StoredWeight& weight, int64_t rows) const {
  return !invariant_ && (rows > kRowsBeforeUnpacking || (rows > kFewRows && has_halves(weight)));
}

// Rows first_row .. of the product into y.
void CudaBackend::multiply(const Product& product, int64_t first_row, int64_t rows, float* y) {
  const StoredWeight& weight = stored(product.weight);
  if (by_library(weight, rows)) return multiply_by_library(product, first_row, rows, y);
  for (int64_t at = 0; at < rows; at += kFewRows) {
    LinearArguments arguments = few_rows(product, first_row + at, std::min<int64_t>(kFewRows, rows - at));
    arguments.y = y + at * weight.rows;
    linear_rows(stream_, arguments);
  }
}

void CudaBackend::multiply_by_library(const Product& product, int64_t first_row, int64_t rows, float* y) {
  const StoredWeight& weight = stored(product.weight);
  const float* residual = product.residual ? values(product.residual) + first_row * weight.rows : nullptr;
  const bool added = weight.bias || residual;
  if (weight.bias || (residual && residual != y)) {
    start_sums(stream_, weight.bias.as<float>(), residual, static_cast<int32_t>(rows),
               static_cast<int32_t>(weight.rows), y);
  }
  multiply_segments(product, first_row, rows, {y, CUDA_R_32F, 1, added ? 1.0f : 0.0f});
}

// Segments that lie side by side as halves of one scale are one matrix: more of the device has work.
void CudaBackend::multiply_segments(const Product& product, int64_t first_row, int64_t rows, const LibrarySums& y) {
  const StoredWeight& weight = stored(product.weight);
  const Buffer& input = buffer_of(product.x);
  const __half* x = halves(product.x) + first_row * input.stride;
  const float scale = weight.segments[0].device.scale;
  const bool whole =
      std::ranges::all_of(weight.segments, [&](const StoredSegment& s) { return s.copy && s.device.scale == scale; });
  if (whole) {
    const Halves all = {weight.copy.as<__half>(), weight.segments[0].device.steps * 64, weight.rows};
    return multiply_halves(all, x, rows, scale * input.scale, 0, weight.rows, y);
  }
  for (const StoredSegment& segment : weight.segments)
    multiply_segment(segment, x, rows, segment.device.scale * input.scale, weight.rows, y);
}

void CudaBackend::multiply_segment(const StoredSegment& segment, const __half* x, int64_t rows, float scale,
                                   int64_t y_columns, const LibrarySums& y) {
  const DeviceSegment& device = segment.device;
  const int32_t stride = device.steps * 64;
  const auto* plain = device.format == Format::F16 ? reinterpret_cast<const __half*>(device.data) : segment.copy;
  if (plain) return multiply_halves({plain, stride, device.rows}, x, rows, scale, device.first_row, y_columns, y);
  const auto at_once = static_cast<int32_t>(unpacked_.size() / (stride * int64_t{sizeof(__half)}) / 16 * 16);
  for (int32_t first = 0; first < device.rows; first += at_once) {
    const int32_t count = std::min(at_once, device.rows - first);
    unpack_rows(stream_, device, first, count, unpacked_.as<__half>());
    multiply_halves({unpacked_.as<__half>(), stride, count}, x, rows, scale, device.first_row + first, y_columns, y);
  }
}

// y = scale / y.scale * x W^T + beta * y, in columns first_column .. of y. The library counts columns first: there y is
// W^T x.
void CudaBackend::multiply_halves(const Halves& w, const __half* x, int64_t rows, float scale, int64_t first_column,
                                  int64_t y_columns, const LibrarySums& y) {
  scale /= y.scale;
  const auto size = static_cast<int64_t>(y.type == CUDA_R_16F ? sizeof(__half) : sizeof(float));
  const cublasStatus_t result = cublasGemmEx(
      blas_, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(w.rows), static_cast<int>(rows), w.stride, &scale, w.data,
      CUDA_R_16F, w.stride, x, CUDA_R_16F, w.stride, &y.beta, static_cast<std::byte*>(y.data) + first_column * size,
      y.type, static_cast<int>(y_columns), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  if (result != CUBLAS_STATUS_SUCCESS) stream_.check(cudaErrorUnknown);
}

}  // namespace martlet::cuda
