#include <algorithm>
#include <cassert>

#include "backend/cpu/operators.h"
#include "tensor/dequantize.h"

namespace martlet::cpu {
namespace {

// Floats of gate and of up that wait for their activation: half of a small second-level cache for both.
constexpr int64_t kGateUpFloats = 16'384;

}  // namespace

int64_t CpuBackend::gate_up_bytes() const {
  return 2 * std::max(kGateUpFloats, max_rows_ * kLinearTile) * static_cast<int64_t>(sizeof(float));
}

Tensor CpuBackend::linear(const Tensor& x, Weight weight, const Tensor* residual) {
  assert(x.columns == stored(weight).columns);
  assert(!residual || (residual->rows == x.rows && residual->columns == stored(weight).rows));
  return memory_.defer(x.rows, stored(weight).rows,
                       {Deferred::Kind::linear, x, residual ? *residual : Tensor(), {}, weight});
}

// The rows of x in the form that kernels of `kind` take, made once for all operators that read x.
const std::byte* CpuBackend::activations(const Tensor& x, ActivationKind kind) {
  Buffer& buffer = buffer_of(x);
  Block& block = buffer.activations[static_cast<size_t>(kind)];
  if (block) return block.bytes();
  const int64_t stride = activation_bytes(kind, x.columns);
  const bool fused = !buffer.values && buffer.deferred.kind == Deferred::Kind::norm;
  const float* from = values(fused ? buffer.deferred.x : x);
  const float* weight = fused ? stored(buffer.deferred.norm.weight).vector.data() : nullptr;
  block = memory_.take(x.rows * stride);
  each_row(x.rows, x.columns, [&](int worker, int64_t begin, int64_t end) {
    auto* normed = reinterpret_cast<float*>(workers_[static_cast<size_t>(worker)].rows.data());
    for (int64_t r = begin; r < end; ++r) {
      const float* row = from + r * x.columns;
      if (fused) {
        level_.vectors->rms_norm(row, weight, buffer.deferred.norm.epsilon, x.columns, normed);
        row = normed;
      }
      level_.linear->quantize(kind, row, x.columns, block.bytes() + r * stride);
    }
  });
  return block.bytes();
}

CpuBackend::Product CpuBackend::prepare(const Deferred& operation, int64_t first_row, int64_t rows) {
  const StoredWeight& weight = stored(operation.weight);
  Product out = {&weight, rows, {}, nullptr, nullptr, weight.rows};
  if (exact_) {
    out.exact = values(operation.x) + first_row * weight.columns;
  } else {
    for (const Segment& segment : weight.segments) {
      out.activations[static_cast<size_t>(segment.kind)] =
          activations(operation.x, segment.kind) + first_row * activation_bytes(segment.kind, weight.columns);
    }
  }
  if (operation.residual) out.residual = values(operation.residual) + first_row * weight.rows;
  return out;
}

// Rows begin .. end of one matrix, against all activations; y is where the first of them goes.
void CpuBackend::columns_of(const Product& product, const Segment& segment, int64_t begin, int64_t end, float* y,
                            int64_t y_stride, int worker) {
  if (product.exact) return columns_exactly(product, segment, begin, end, y, y_stride, worker);
  const StoredWeight& weight = *product.weight;
  const TensorView& view = segment.view;
  const int64_t first = segment.first_row + begin;
  LinearJob job = {};
  job.format = view.format;
  job.weights = view.data + begin * view.row_bytes();
  job.weight_row_bytes = view.row_bytes();
  job.columns = weight.columns;
  job.activations = product.activations[static_cast<size_t>(segment.kind)];
  job.activation_row_bytes = activation_bytes(segment.kind, weight.columns);
  job.rows = product.rows;
  job.y = y;
  job.y_stride = y_stride;
  job.bias = weight.bias.empty() ? nullptr : weight.bias.data() + first;
  job.residual = product.residual ? product.residual + first : nullptr;
  job.residual_stride = product.residual_stride;
  job.weights_end = view.data + view.bytes();
  level_.linear->run(job, 0, end - begin, workers_[static_cast<size_t>(worker)].linear.data());
}

// A tile of rows is widened, once for all activations, and multiplied as a matrix of floats.
void CpuBackend::columns_exactly(const Product& product, const Segment& segment, int64_t begin, int64_t end, float* y,
                                 int64_t y_stride, int worker) {
  const StoredWeight& weight = *product.weight;
  const auto columns = static_cast<size_t>(weight.columns);
  auto* tile = reinterpret_cast<float*>(workers_[static_cast<size_t>(worker)].rows.data());
  LinearJob job = {};
  job.format = Format::F32;
  job.weights = reinterpret_cast<const std::byte*>(tile);
  job.weight_row_bytes = weight.columns * static_cast<int64_t>(sizeof(float));
  job.columns = weight.columns;
  job.activations = reinterpret_cast<const std::byte*>(product.exact);
  job.activation_row_bytes = job.weight_row_bytes;
  job.rows = product.rows;
  job.y_stride = y_stride;
  job.residual_stride = product.residual_stride;
  for (int64_t n = begin; n < end; n += kLinearTile) {
    const int64_t rows = std::min(kLinearTile, end - n), first = segment.first_row + n;
    for (int64_t i = 0; i < rows; ++i) dequantize_row(segment.view, n + i, {tile + i * weight.columns, columns});
    job.weights_end = job.weights + rows * job.weight_row_bytes;
    job.y = y + (n - begin);
    job.bias = weight.bias.empty() ? nullptr : weight.bias.data() + first;
    job.residual = product.residual ? product.residual + first : nullptr;
    level_.linear->run(job, 0, rows, workers_[static_cast<size_t>(worker)].linear.data());
  }
}

void CpuBackend::multiply(const Product& product, float* y, int64_t y_stride) {
  const StoredWeight& weight = *product.weight;
  pool_.run(weight.tiles, [&](int worker, int64_t begin, int64_t end) {
    for (const Segment& segment : weight.segments) {
      const int64_t first = std::max<int64_t>(0, (begin - segment.first_tile) * kLinearTile);
      const int64_t last = std::min(segment.view.rows(), (end - segment.first_tile) * kLinearTile);
      if (first < last) columns_of(product, segment, first, last, y + segment.first_row + first, y_stride, worker);
    }
  });
}

bool CpuBackend::fuses_activation(const Buffer& buffer) const {
  if (buffer.values || buffer.deferred.kind != Deferred::Kind::linear || buffer.deferred.residual) return false;
  const std::vector<Segment>& segments = stored(buffer.deferred.weight).segments;
  return segments.size() == 2 && segments[0].view.rows() == segments[1].view.rows();
}

// Gate and up, a few tiles at a time, so that the activation finds them in the cache.
Tensor CpuBackend::activate_gate_up(const Deferred& operation, int64_t rows) {
  const Product product = prepare(operation, 0, rows);
  const Segment &gate = product.weight->segments[0], &up = product.weight->segments[1];
  const int64_t columns = gate.view.rows();
  const int64_t step = std::max<int64_t>(1, kGateUpFloats / (rows * kLinearTile)) * kLinearTile;
  Tensor out = memory_.tensor(rows, columns);
  float* y = buffer_of(out).values.floats();
  pool_.run(up.first_tile, [&](int worker, int64_t begin_tile, int64_t end_tile) {
    auto* gates = reinterpret_cast<float*>(workers_[static_cast<size_t>(worker)].gate_up.data());
    float* ups = gates + rows * step;
    const int64_t end = std::min(columns, end_tile * kLinearTile);
    for (int64_t begin = begin_tile * kLinearTile; begin < end; begin += step) {
      const int64_t count = std::min(step, end - begin);
      columns_of(product, gate, begin, begin + count, gates, step, worker);
      columns_of(product, up, begin, begin + count, ups, step, worker);
      for (int64_t r = 0; r < rows; ++r)
        level_.vectors->silu_gated(gates + r * step, ups + r * step, count, y + r * columns + begin);
    }
  });
  return out;
}

Tensor CpuBackend::activate(const Tensor& x, Activation activation) {
  assert(activation == Activation::silu_gated && x.columns % 2 == 0);
  if (fuses_activation(buffer_of(x))) return activate_gate_up(buffer_of(x).deferred, x.rows);
  const int64_t columns = x.columns / 2;
  const float* from = values(x);
  Tensor out = memory_.tensor(x.rows, columns);
  float* y = buffer_of(out).values.floats();
  each_row(x.rows, x.columns, [&](int, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* row = from + r * x.columns;
      level_.vectors->silu_gated(row, row + columns, columns, y + r * columns);
    }
  });
  return out;
}

}  // namespace martlet::cpu
