#include "backend/cuda/kernels/attention_rows.cuh"
#include "backend/cuda/kernels/attention_tiles.cuh"

namespace martlet::cuda {

template void write_rows_of<CachedF16>(Stream& stream, const AttentionArguments& arguments);
template void attend_rows_of<CachedF16>(Stream& stream, const AttentionArguments& arguments, int32_t blocks);
template void attend_tiles_of<CachedF16>(Stream& stream, const AttentionArguments& arguments, int32_t tiles);

}  // namespace martlet::cuda
