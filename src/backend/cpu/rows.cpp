#include <algorithm>
#include <cassert>

#include "backend/cpu/operators.h"
#include "tensor/dequantize.h"

namespace martlet::cpu {
namespace {

// Values that one thread handles sooner than it hands some to another.
constexpr int64_t kWorthSharing = 8'192;

}  // namespace

void CpuBackend::each_row(int64_t rows, int64_t values_a_row, ThreadPool::Work work) {
  if (rows * values_a_row < kWorthSharing) return work(0, 0, rows);
  pool_.run(rows, work);
}

Tensor CpuBackend::embed(Weight table) {
  const StoredWeight& weight = stored(table);
  Tensor out = memory_.tensor(static_cast<int64_t>(tokens_.size()), weight.columns);
  float* y = buffer_of(out).values.floats();
  each_row(out.rows, out.columns, [&](int, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t token = tokens_[static_cast<size_t>(r)];
      assert(token >= 0 && token < weight.segments[0].view.rows());
      dequantize_row(weight.segments[0].view, token, {y + r * out.columns, static_cast<size_t>(out.columns)});
    }
  });
  return out;
}

Tensor CpuBackend::norm(const Tensor& x, const Norm& norm) {
  assert(norm.kind == Norm::Kind::rms && static_cast<size_t>(x.columns) == stored(norm.weight).vector.size());
  return memory_.defer(x.rows, x.columns, {Deferred::Kind::norm, x, {}, norm, {}});
}

void CpuBackend::norm_rows(const Deferred& operation, int64_t rows, float* out) {
  const int64_t columns = operation.x.columns;
  const float* from = values(operation.x);
  const float* weight = stored(operation.norm.weight).vector.data();
  each_row(rows, columns, [&](int, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      level_.vectors->rms_norm(from + r * columns, weight, operation.norm.epsilon, columns, out + r * columns);
  });
}

Tensor CpuBackend::gather_outputs(const Tensor& x) {
  const float* from = values(x);
  Tensor out = memory_.tensor(static_cast<int64_t>(batch_->outputs.size()), x.columns);
  float* y = buffer_of(out).values.floats();
  for (int32_t row : batch_->outputs) y = std::copy_n(from + row * x.columns, x.columns, y);
  return out;
}

// The tensor's values, computed now when the operator was deferred.
const float* CpuBackend::values(const Tensor& tensor) {
  Buffer& buffer = buffer_of(tensor);
  if (!buffer.values) {
    Block block = memory_.take(tensor.rows * tensor.columns * static_cast<int64_t>(sizeof(float)));
    if (buffer.deferred.kind == Deferred::Kind::norm) {
      norm_rows(buffer.deferred, tensor.rows, block.floats());
    } else {
      multiply(prepare(buffer.deferred, 0, tensor.rows), block.floats(), tensor.columns);
    }
    buffer.values = std::move(block);
    buffer.deferred = {};
  }
  return buffer.values.floats();
}

void CpuBackend::read(const Tensor& tensor, std::span<float> out) {
  assert(static_cast<int64_t>(out.size()) == tensor.rows * tensor.columns);
  const Buffer& buffer = buffer_of(tensor);
  if (!buffer.values && buffer.deferred.kind == Deferred::Kind::linear) {
    multiply(prepare(buffer.deferred, 0, tensor.rows), out.data(), tensor.columns);
  } else {
    std::copy_n(values(tensor), out.size(), out.begin());
  }
}

}  // namespace martlet::cpu
