#include "backend/cuda/kernels/linear.cuh"

namespace martlet::cuda {

template void launch_linear<4, 2, false>(Stream& stream, LinearArguments arguments);
template void launch_linear<4, 2, true>(Stream& stream, LinearArguments arguments);

}  // namespace martlet::cuda
