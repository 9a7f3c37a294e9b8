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

// Rows first_row .. of the product into y.
void CudaBackend::multiply(const Product& product, int64_t first_row, int64_t rows, float* y) {
  const StoredWeight& weight = stored(product.weight);
  if (rows > kRowsBeforeUnpacking || (rows > kFewRows && has_halves(weight)))
    return multiply_by_library(product, first_row, rows, y);
  for (int64_t at = 0; at < rows; at += kFewRows) {
    LinearArguments arguments = few_rows(product, first_row + at, std::min<int64_t>(kFewRows, rows - at));
    arguments.y = y + at * weight.rows;
    linear_rows(stream_, arguments);
  }
}

void CudaBackend::multiply_by_library(const Product& product, int64_t first_row, int64_t rows, float* y) {
  const StoredWeight& weight = stored(product.weight);
  const __half* x = halves(product.x) + first_row * buffer_of(product.x).stride;
  const bool starts = weight.bias || product.residual;
  if (starts) {
    const float* residual = product.residual ? values(product.residual) + first_row * weight.rows : nullptr;
    start_sums(stream_, weight.bias.as<float>(), residual, static_cast<int32_t>(rows),
               static_cast<int32_t>(weight.rows), y);
  }
  for (const StoredSegment& segment : weight.segments) {
    multiply_segment(segment, x, rows, segment.device.scale * buffer_of(product.x).scale, starts ? 1 : 0,
                     y + segment.device.first_row, weight.rows);
  }
}

// y = scale * x W^T + beta * y. The library counts columns first: there y is W^T x.
void CudaBackend::multiply_segment(const StoredSegment& segment, const __half* x, int64_t rows, float scale, float beta,
                                   float* y, int64_t y_columns) {
  const int32_t stride = segment.device.steps * 64;
  const auto product = [&](const void* halves, int32_t weight_rows, float* to) {
    const cublasStatus_t result =
        cublasGemmEx(blas_, CUBLAS_OP_T, CUBLAS_OP_N, weight_rows, static_cast<int>(rows), stride, &scale, halves,
                     CUDA_R_16F, stride, x, CUDA_R_16F, stride, &beta, to, CUDA_R_32F, static_cast<int>(y_columns),
                     CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    if (result != CUBLAS_STATUS_SUCCESS) stream_.check(cudaErrorUnknown);
  };
  if (segment.device.format == Format::F16) return product(segment.device.data, segment.device.rows, y);
  if (segment.copy) return product(segment.copy.data(), segment.device.rows, y);
  const auto at_once = static_cast<int32_t>(unpacked_.size() / (stride * int64_t{sizeof(__half)}) / 16 * 16);
  for (int32_t first = 0; first < segment.device.rows; first += at_once) {
    const int32_t count = std::min(at_once, segment.device.rows - first);
    unpack_rows(stream_, segment.device, first, count, unpacked_.as<__half>());
    product(unpacked_.data(), count, y + first);
  }
}

}  // namespace martlet::cuda
