// Prompts: many rows of one sequence, 64 queries a block that share its pages.

#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/write_heads.cuh"

namespace martlet::cuda {
namespace {

// Keys of a page in shared memory. Chunks of eight halves are swapped about inside a row so that no two lanes of a
// quarter warp meet in a bank.
struct SharedKeys {
  const __half* keys;
  int size, stride;
  static __device__ int place(int token, int chunk) { return chunk ^ (token & 7); }
  __device__ void load(int token, int first, uint32_t* out) const {
    const uint4* row = reinterpret_cast<const uint4*>(keys + token * stride);
    const int chunk = min(first, size - 16) / 8;
    const uint4 a = row[place(token, chunk)], b = row[place(token, chunk + 1)];
    out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w;
    out[4] = b.x, out[5] = b.y, out[6] = b.z, out[7] = b.w;
  }
};

// A warp a row and head of the rows that attend_tiles() handles. Heads in order: queries, keys, values.
__global__ void __launch_bounds__(kWarps * 32) write_kernel(const __grid_constant__ AttentionArguments a) {
  __shared__ float heads[kWarps][kMaxHeadSize];
  start_next();
  wait_for_input();
  const int row = blockIdx.y, unit = blockIdx.x * kWarps + threadIdx.x / 32;
  if (a.step.row_pages[row] < 0 || a.step.row_spans[row + 1] > a.step.row_spans[row]) return;
  if (blockIdx.x == 0) clear_padding(a, row);
  if (unit >= a.heads + 2 * a.kv_heads) return;
  float* scratch = heads[threadIdx.x / 32];
  if (unit < a.heads) {
    write_turned(a, row, unit, scratch, a.queries + (int64_t{row} * a.heads + unit) * a.key_size);
  } else if (unit < a.heads + a.kv_heads) {
    write_key(a, row, unit - a.heads, scratch);
  } else {
    write_value(a, row, unit - a.heads - a.kv_heads);
  }
}

// A page's keys and values of one head on their way into shared memory.
template <class Sizes>
__device__ void fetch_page(const Sizes& sizes, const __half* page, __half* keys, int stride, __half* values) {
  const auto copy = [](__half* to, const __half* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
                 "l"(from));
  };
  const int chunks = sizes.keys / 8;
  for (int i = threadIdx.x; i < kPageTokens * chunks; i += blockDim.x) {
    const int token = i / chunks;
    copy(keys + token * stride + SharedKeys::place(token, i % chunks) * 8, page + i * 8);
  }
  for (int i = threadIdx.x; i < kPageTokens * sizes.values / 8; i += blockDim.x)
    copy(values + i * 8, page + kPageTokens * sizes.keys + i * 8);
  asm volatile("cp.async.commit_group;");
}

// 64 queries of one sequence's rows: query i belongs to row i / group and to query head i % group of the key head. The
// block's warps read the same pages from shared memory, 16 queries each.
template <int kSteps, bool kWhole>
__global__ void __launch_bounds__(kWarps * 32, kSteps <= 2 ? 3 : 1)
    tiles_kernel(const __grid_constant__ AttentionArguments a) {
  extern __shared__ __align__(16) __half pages_in[];  // keys and values of two pages
  start_next();
  wait_for_input();
  const HeadSizes<kSteps, kWhole> sizes(a);
  const QueryTile tile = a.tiles[gridDim.x - 1 - blockIdx.x];  // the longest first
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int kv_head = blockIdx.y, group = a.heads / a.kv_heads, all = tile.rows * group;
  const int first = tile.first_query + threadIdx.x / 32 * kQueries;
  int rows[2], heads[2], contexts[2];
  const __half* from[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int query = min(first + g + 8 * h, all - 1);
    rows[h] = tile.first_row + query / group;
    heads[h] = kv_head * group + query % group;
    contexts[h] = a.step.positions[rows[h]] + 1;
    from[h] = a.queries + (int64_t{rows[h]} * a.heads + heads[h]) * sizes.keys;
  }
  const auto q = load_queries<kSteps>(from[0], from[1], sizes.keys, t);
  const auto context_of = [&](int query) { return a.step.positions[tile.first_row + min(query, all - 1) / group] + 1; };
  const int mine = context_of(first + kQueries - 1), longest = context_of(tile.first_query + kTileQueries - 1);
  const int32_t* pages = a.step.pages + a.step.row_pages[tile.first_row];
  const __half* cache = a.cache + int64_t{kv_head} * kPageTokens * (sizes.keys + sizes.values);
  const int stride = (sizes.keys + 63) / 64 * 64, page_size = kPageTokens * (stride + sizes.values);
  const auto fetch = [&](int p) {
    __half* keys = pages_in + p % 2 * page_size;
    fetch_page(sizes, cache + pages[p] * a.page_halves, keys, stride, keys + kPageTokens * stride);
  };
  Running<kSteps> running;
  fetch(0);
  for (int p = 0; p * kPageTokens < longest; ++p) {
    const int base = p * kPageTokens;
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();  // the page is there for all, and nobody reads the one before it any more
    if (base + kPageTokens < longest) fetch(p + 1);
    const __half* keys = pages_in + p % 2 * page_size;
    if (base < mine && first < all) {
      attend_page(q, SharedKeys{keys, sizes.keys, stride}, keys + kPageTokens * stride, sizes,
                  {contexts[0] - base, contexts[1] - base}, mine - base, running);
    }
  }
  finish_sums(running);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (first + g + 8 * h >= all) continue;
    __half* out = a.out + int64_t{rows[h]} * a.stride + heads[h] * sizes.values;
    const float inverse = 1 / running.sums[h];
#pragma unroll
    for (int n = 0; n < kSteps * 8; ++n) {
      if (8 * n >= sizes.values) break;
      *reinterpret_cast<__half2*>(out + 8 * n + 2 * t) =
          __floats2half2_rn(running.out[n][2 * h] * inverse, running.out[n][2 * h + 1] * inverse);
    }
  }
}

}  // namespace

void write_rows(Stream& stream, const AttentionArguments& a) {
  const int units = a.heads + 2 * a.kv_heads;
  const dim3 grid(static_cast<unsigned>((units + kWarps - 1) / kWarps), static_cast<unsigned>(a.rows));
  launch(stream, write_kernel, grid, kWarps * 32, 0, a);
}

void attend_tiles(Stream& stream, const AttentionArguments& a, int32_t tiles) {
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(a.kv_heads));
  const int keys = (a.key_size + 63) / 64 * 64;
  const auto bytes = 2 * kPageTokens * (keys + a.value_size) * static_cast<int>(sizeof(__half));
  with_steps(a, [&](auto steps) {
    const bool whole = a.key_size == 64 * steps() && a.value_size == 64 * steps();
    const auto kernel = whole ? tiles_kernel<steps(), true> : tiles_kernel<steps(), false>;
    if (bytes > 48 << 10)
      stream.check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    launch(stream, kernel, grid, kWarps * 32, static_cast<size_t>(bytes), a);
  });
}

}  // namespace martlet::cuda
