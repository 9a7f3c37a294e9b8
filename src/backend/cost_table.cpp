#include "backend/cost_table.h"

#include <algorithm>
#include <cmath>

namespace martlet {
namespace {

// A new step's weight once a cell has seen some: quick enough to follow a busy neighbour, slow enough not to follow one
// interrupted step, which counts as this many times what was expected at most.
constexpr double kLeastWeight = 1.0 / 8, kOutlier = 3;
constexpr int32_t kSmallestContext = 256;

}  // namespace

size_t CostTable::row_bucket(int32_t rows) {
  const auto exact = static_cast<int32_t>(kExactRows);
  if (rows <= exact) return static_cast<size_t>(std::max(rows, 1) - 1);
  const double octaves = std::log2(static_cast<double>(rows) / exact);
  return std::min(kExactRows - 1 + static_cast<size_t>(std::ceil(4 * octaves)), kRowBuckets - 1);
}

size_t CostTable::context_bucket(int32_t context) {
  if (context <= kSmallestContext) return 0;
  const double octaves = std::log2(static_cast<double>(context) / kSmallestContext);
  return std::min(static_cast<size_t>(std::ceil(octaves)), kContextBuckets - 1);
}

void CostTable::observe(int32_t rows, int32_t context, double seconds) {
  Cell& cell = cells_[row_bucket(rows)][context_bucket(context)];
  if (cell.count > 1) seconds = std::min(seconds, kOutlier * cell.seconds);
  fewest_ = std::min(fewest_, rows);
  ++cell.count;
  const double weight = std::max(1.0 / cell.count, kLeastWeight);
  cell.rows += weight * (rows - cell.rows);
  cell.seconds += weight * (seconds - cell.seconds);
}

const CostTable::Cell* CostTable::nearest(size_t row_bucket, size_t context_bucket) const {
  const auto& contexts = cells_[row_bucket];
  for (size_t distance = 0; distance < kContextBuckets; ++distance) {
    if (context_bucket >= distance && contexts[context_bucket - distance].count > 0)
      return &contexts[context_bucket - distance];
    if (context_bucket + distance < kContextBuckets && contexts[context_bucket + distance].count > 0)
      return &contexts[context_bucket + distance];
  }
  return nullptr;
}

std::optional<double> CostTable::seconds(int32_t rows, int32_t context) const {
  const size_t at = context_bucket(context);
  const Cell* below = nullptr;
  for (size_t bucket = 0; bucket < kRowBuckets; ++bucket) {
    const Cell* cell = nearest(bucket, at);
    if (!cell) continue;
    if (cell->rows >= rows) {
      if (!below) return cell->seconds;
      const double part = (rows - below->rows) / (cell->rows - below->rows);
      return below->seconds + part * (cell->seconds - below->seconds);
    }
    below = cell;
  }
  if (!below) return std::nullopt;
  return below->seconds * rows / below->rows;
}

}  // namespace martlet
