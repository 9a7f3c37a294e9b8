#include "draft/step_times.h"

#include <algorithm>

namespace martlet {
namespace {

constexpr double kSmoothing = 8;  // samples that an estimate remembers
constexpr double kOutlier = 3;    // a step that was held up counts as this many times the estimate at most

}  // namespace

size_t StepTimes::cell_of(int32_t rows) {
  const auto at = std::lower_bound(kRows.begin(), kRows.end(), rows);
  return static_cast<size_t>(std::min(at, kRows.end() - 1) - kRows.begin());
}

void StepTimes::record(int32_t rows, double seconds) {
  Cell& cell = cells_[cell_of(rows)];
  if (cell.samples > 1) seconds = std::min(seconds, kOutlier * cell.seconds);
  cell.samples = std::min(cell.samples + 1, static_cast<int32_t>(kSmoothing));
  cell.seconds += (seconds - cell.seconds) / cell.samples;
}

double StepTimes::operator()(int32_t rows) const {
  const size_t wanted = cell_of(rows);
  size_t below = wanted + 1, above = wanted;
  while (below > 0 && cells_[below - 1].samples == 0) --below;
  if (below == 0) return 0;
  --below;
  while (above < cells_.size() && cells_[above].samples == 0) ++above;
  const double low = cells_[below].seconds;
  if (below == wanted) return low;
  if (above == cells_.size()) return low * rows / kRows[below];
  const double share = static_cast<double>(rows - kRows[below]) / (kRows[above] - kRows[below]);
  return low + share * std::max(0.0, cells_[above].seconds - low);
}

}  // namespace martlet
