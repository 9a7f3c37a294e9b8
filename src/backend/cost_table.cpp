#include "backend/cost_table.h"

#include <algorithm>
#include <cmath>

namespace martlet {
namespace {

// A new step's weight once a cell has seen some: quick enough to follow a busy neighbour, slow enough not to follow one
// interrupted step, which counts as this many times what was expected at most.
constexpr double kLeastWeight = 1.0 / 8, kOutlier = 3;
constexpr int32_t kSmallestContext = 256;
constexpr int64_t kFirst = 4;  // observations of a cell of which the least counts
// Steps for which each observation of a cell is believed, for up to so many observations.
constexpr int64_t kBelief = 64, kMostBelief = 16;

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
  if (cell.count == 0) cell.seconds = most(rows, context);
  fewest_ = std::min(fewest_, rows);
  most_ = std::max(most_, rows);
  ++cell.count;
  cell.last = ++observations_;
  const double weight = std::max(1.0 / static_cast<double>(cell.count), kLeastWeight);
  cell.rows += weight * (rows - cell.rows);
  if (cell.count <= kFirst)
    cell.seconds = std::min(cell.seconds, seconds);
  else
    cell.seconds += weight * (std::min(seconds, kOutlier * cell.seconds) - cell.seconds);
}

bool CostTable::doubted(const Cell& cell) const {
  return observations_ - cell.last >= kBelief * std::min(cell.count, kMostBelief);
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

double CostTable::Line::between(const Point& below, const Point& above, double rows) {
  const double part = (rows - below.rows) / (above.rows - below.rows);
  return below.seconds + part * (above.seconds - below.seconds);
}

// Points come in order of rows. Those that are doubted are left out where they lie above what others make of them.
void CostTable::Line::add(const Point& point) {
  const auto too_dear = [&](const Point& last) {
    return last.doubted && last.seconds > between(points_[size_ - 2], point, last.rows);
  };
  while (size_ > 1 && too_dear(points_[size_ - 1])) --size_;
  points_[size_++] = point;
}

// The first and the last have others on one side only. Doubted, the first is not dearer than the next one, nor the last
// dearer for each row than the one before.
void CostTable::Line::end() {
  if (size_ < 2) return;
  Point &first = points_[0], &last = points_[size_ - 1];
  const Point& before = points_[size_ - 2];
  if (last.doubted) last.seconds = std::min(last.seconds, before.seconds * last.rows / before.rows);
  if (!first.doubted || first.seconds <= points_[1].seconds) return;
  const double in_proportion = points_[1].seconds * first.rows / points_[1].rows;
  const double from_two = size_ > 2 ? between(points_[1], points_[2], first.rows) : points_[1].seconds;
  first.seconds = std::max(in_proportion, from_two);
}

CostTable::Line CostTable::line(int32_t context) const {
  const size_t at = context_bucket(context);
  Line line;
  for (size_t bucket = 0; bucket < kRowBuckets; ++bucket)
    if (const Cell* cell = nearest(bucket, at)) line.add({cell->rows, cell->seconds, doubted(*cell)});
  line.end();
  return line;
}

std::optional<double> CostTable::Line::seconds(int32_t rows) const {
  if (size_ == 0) return std::nullopt;
  const auto end = points_.begin() + static_cast<std::ptrdiff_t>(size_);
  const auto above =
      std::lower_bound(points_.begin(), end, rows, [](const Point& point, int32_t n) { return point.rows < n; });
  if (above == points_.begin()) return above->seconds;
  const Point& below = *std::prev(above);
  return above == end ? below.seconds * rows / below.rows : between(below, *above, rows);
}

std::optional<double> CostTable::seconds(int32_t rows, int32_t context) const {
  return line(context).seconds(rows);
}

}  // namespace martlet
