#include "backend/cost_table.h"

#include <algorithm>
#include <cmath>

namespace martlet {
namespace {

// A new step's weight once a cell has seen some: quick enough to follow a busy neighbour, slow enough not to follow one
// interrupted step, which counts as this many times what was expected at most.
constexpr double kLeastWeight = 1.0 / 8, kOutlier = 3;
constexpr int32_t kSmallestContext = 256;
constexpr int64_t kDoubt = 64;  // steps after which a lone observation wants to be confirmed

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

// What cells of the same context allow a step to cost: no more than one of more rows, nor than as many of fewer.
double CostTable::most(int32_t rows, int32_t context) const {
  const size_t at = row_bucket(rows), column = context_bucket(context);
  double seconds = std::numeric_limits<double>::infinity();
  for (size_t bucket = 0; bucket < at; ++bucket) {
    const Cell& below = cells_[bucket][column];
    if (below.count > 0) seconds = below.seconds * rows / below.rows;
  }
  for (size_t bucket = at + 1; bucket < kRowBuckets; ++bucket) {
    const Cell& above = cells_[bucket][column];
    if (above.count > 0) return std::min(seconds, above.seconds);
  }
  return seconds;
}

void CostTable::observe(int32_t rows, int32_t context, double seconds) {
  Cell& cell = cells_[row_bucket(rows)][context_bucket(context)];
  if (cell.count == 0) seconds = std::min(seconds, most(rows, context));
  if (cell.count == 1) cell.seconds = std::min(cell.seconds, seconds);
  if (cell.count > 1) seconds = std::min(seconds, kOutlier * cell.seconds);
  fewest_ = std::min(fewest_, rows);
  ++cell.count;
  cell.last = ++observations_;
  const double weight = std::max(1.0 / cell.count, kLeastWeight);
  cell.rows += weight * (rows - cell.rows);
  cell.seconds += weight * (seconds - cell.seconds);
}

bool CostTable::doubted(const Cell& cell) const {
  return cell.count == 1 && observations_ - cell.last >= kDoubt;
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

double CostTable::between(const Cell& below, const Cell& above, double rows) {
  const double part = (rows - below.rows) / (above.rows - below.rows);
  return below.seconds + part * (above.seconds - below.seconds);
}

std::optional<double> CostTable::seconds(int32_t rows, int32_t context) const {
  const size_t at = context_bucket(context);
  std::array<const Cell*, kRowBuckets> line;  // by rows; doubted cells above what others make of it left out
  size_t size = 0;
  for (size_t bucket = 0; bucket < kRowBuckets; ++bucket) {
    const Cell* cell = nearest(bucket, at);
    if (!cell) continue;
    const auto too_dear = [&](const Cell& last) {
      return doubted(last) && last.seconds > between(*line[size - 2], *cell, last.rows);
    };
    while (size > 1 && too_dear(*line[size - 1])) --size;
    line[size++] = cell;
    if (cell->rows >= rows && !doubted(*cell)) break;
  }
  if (size == 0) return std::nullopt;
  size_t above = 0;
  while (above < size && line[above]->rows < rows) ++above;
  if (above == 0) return line[0]->seconds;
  const Cell& below = *line[above - 1];
  return above < size ? between(below, *line[above], rows) : below.seconds * rows / below.rows;
}

}  // namespace martlet
