#include "backend/cuda/kernels/linear.h"

namespace martlet::cuda {

template <int kColumns, int kTiles, bool kGated>
void launch_linear(Stream& stream, const LinearArguments& arguments);  // linear.cuh

void linear_rows(Stream& stream, const LinearArguments& a) {
  if (a.gated) {
    a.rows <= 8    ? launch_linear<1, 2, true>(stream, a)
    : a.rows <= 16 ? launch_linear<2, 2, true>(stream, a)
                   : launch_linear<4, 2, true>(stream, a);
  } else {
    a.rows == 1    ? launch_linear<1, 1, false>(stream, a)
    : a.rows <= 8  ? launch_linear<1, 2, false>(stream, a)
    : a.rows <= 16 ? launch_linear<2, 2, false>(stream, a)
                   : launch_linear<4, 2, false>(stream, a);
  }
}

}  // namespace martlet::cuda
