#include "backend/cuda/kernels/linear.h"

#include <algorithm>

namespace martlet::cuda {

template <int kColumns, int kTiles, bool kGated>
void launch_linear(Stream& stream, LinearArguments arguments);  // linear.cuh

namespace {

constexpr int kRoundSteps = 4;  // that the end of a round is worth

// Parts that a tile's columns are cut into: those that leave the busiest warp least to do. It depends on the weight and
// the device alone, so that every number of rows is summed alike.
int parts_of(const LinearArguments& a) {
  const bool pair = a.segment_count == 2 && a.segments[0].rows == a.segments[1].rows;
  const int step = pair ? 2 : 1, each = (a.tiles + a.blocks - 1) / a.blocks, tiles = (each + step - 1) / step * step;
  int best = 1, least = 1 << 30;
  for (int parts = 1; parts <= kMaxParts && parts * step <= kMaxWarps; ++parts) {
    const int at_once = std::min(tiles, kMaxWarps / parts / step * step);
    const int rounds = (tiles + at_once - 1) / at_once;
    const int work = rounds * ((a.segments[0].steps + parts - 1) / parts + kRoundSteps);
    if (work < least) best = parts, least = work;
  }
  return best;
}

}  // namespace

void linear_rows(Stream& stream, const LinearArguments& arguments) {
  LinearArguments a = arguments;
  a.parts = parts_of(a);
  if (a.gated) {
    a.rows <= 8    ? launch_linear<1, 1, true>(stream, a)
    : a.rows <= 16 ? launch_linear<2, 2, true>(stream, a)
                   : launch_linear<4, 2, true>(stream, a);
  } else {
    a.rows <= 8    ? launch_linear<1, 1, false>(stream, a)
    : a.rows <= 16 ? launch_linear<2, 2, false>(stream, a)
                   : launch_linear<4, 2, false>(stream, a);
  }
}

}  // namespace martlet::cuda
