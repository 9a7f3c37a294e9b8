#include "backend/cuda/kernels/attention.h"

namespace martlet::cuda {

struct CachedF16;
struct CachedBf16;
struct CachedFp8;
struct CachedQ8;

// attention_*.cu, for each type that a cache is kept as.
template <class Type>
void write_rows_of(Stream& stream, const AttentionArguments& arguments);
template <class Type>
void attend_rows_of(Stream& stream, const AttentionArguments& arguments, int32_t blocks);
template <class Type>
void attend_tiles_of(Stream& stream, const AttentionArguments& arguments, int32_t tiles);

namespace {

// One launcher for each type.
template <class... Arguments>
struct Launchers {
  using Launch = void (*)(Stream&, const AttentionArguments&, Arguments...);
  Launch f16, bf16, fp8, q8;

  void operator()(Stream& stream, const AttentionArguments& a, Arguments... arguments) const {
    const Launch launch = a.type == CacheType::bf16  ? bf16
                          : a.type == CacheType::fp8 ? fp8
                          : a.type == CacheType::q8  ? q8
                                                     : f16;
    launch(stream, a, arguments...);
  }
};

constexpr Launchers<> kWriteRows = {write_rows_of<CachedF16>, write_rows_of<CachedBf16>, write_rows_of<CachedFp8>,
                                    write_rows_of<CachedQ8>};
constexpr Launchers<int32_t> kAttendRows = {attend_rows_of<CachedF16>, attend_rows_of<CachedBf16>,
                                            attend_rows_of<CachedFp8>, attend_rows_of<CachedQ8>};
constexpr Launchers<int32_t> kAttendTiles = {attend_tiles_of<CachedF16>, attend_tiles_of<CachedBf16>,
                                             attend_tiles_of<CachedFp8>, attend_tiles_of<CachedQ8>};

}  // namespace

void write_rows(Stream& stream, const AttentionArguments& arguments) {
  kWriteRows(stream, arguments);
}

void attend_rows(Stream& stream, const AttentionArguments& arguments, int32_t blocks) {
  kAttendRows(stream, arguments, blocks);
}

void attend_tiles(Stream& stream, const AttentionArguments& arguments, int32_t tiles) {
  kAttendTiles(stream, arguments, tiles);
}

}  // namespace martlet::cuda
