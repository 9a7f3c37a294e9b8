#pragma once

// Prompts: many rows of one sequence, 64 queries a block that share its pages. Instantiated by attention_*.cu for each
// type of cache.

#include "backend/cuda/kernels/attend_page_by_group.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/shared_pages.cuh"
#include "backend/cuda/kernels/write_heads.cuh"

namespace martlet::cuda {
namespace {

// A warp a row and head of the rows that attend_tiles() handles. Heads in order: queries, keys, values.
template <class Type>
__global__ void __launch_bounds__(kWarps * 32) write_kernel(const __grid_constant__ AttentionArguments a) {
  __shared__ float heads[kWarps][kMaxHeadSize];
  start_next();
  wait_for_input();
  const int row = blockIdx.y, first = a.keys_apart ? a.heads : 0;
  const int unit = first + blockIdx.x * kWarps + threadIdx.x / 32;
  if (a.step.row_pages[row] < 0) return;
  if (!a.keys_apart) {
    if (a.step.row_spans[row + 1] > a.step.row_spans[row]) return;
    if (blockIdx.x == 0) clear_padding(a, row);
  }
  if (unit >= a.heads + 2 * a.kv_heads) return;
  float* scratch = heads[threadIdx.x / 32];
  const int position = a.step.positions[row];
  const auto own_page = [&](int kv_head) {
    const int page = a.step.pages[a.step.row_pages[row] + position / kPageTokens];
    return head_in<Type>(a, page, kv_head, a.key_size, a.value_size);
  };
  if (unit < a.heads) {
    write_query<0>(a, row, unit, scratch, a.queries + (int64_t{row} * a.heads + unit) * a.key_size);
  } else if (unit < a.heads + a.kv_heads) {
    write_key<0>(a, row, unit - a.heads, scratch, own_page(unit - a.heads), position % kPageTokens);
  } else {
    const int head = unit - a.heads - a.kv_heads;
    write_value<0>(a, row, head, own_page(head), position % kPageTokens);
  }
}

// 64 queries of one sequence's rows: query i belongs to row i / group and to query head i % group of the key head. The
// block's warps read the same pages from shared memory, 16 queries each.
template <class Type, int kSteps, bool kWhole>
__global__ void __launch_bounds__(kWarps * 32, kSteps <= 2 ? 3 : 1)
    tiles_kernel(const __grid_constant__ AttentionArguments a) {
  extern __shared__ __align__(1024) __half pages_in[];
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
  const auto context_of = [&](int query) { return a.step.positions[tile.first_row + min(query, all - 1) / group] + 1; };
  const int mine = context_of(first + kQueries - 1), longest = context_of(tile.first_query + kTileQueries - 1);
  const int32_t* pages = a.step.pages + a.step.row_pages[tile.first_row];
  constexpr bool kGroups = has_warp_groups() && kWhole && kSteps <= 2;
  using Shared = SharedPages<Type, kGroups>;
  const int stride = Shared::stride_of(sizes.keys);
  const Shared shared{pages_in, sizes.keys, sizes.values, stride};
  const auto fetch = [&](int p) { shared.fetch(p, head_in<Type>(a, pages[p], kv_head, sizes.keys, sizes.values)); };
  Running<kSteps> running;
  const auto each_page = [&](const auto& attend) {
    fetch(0);
    for (int p = 0; p * kPageTokens < longest; ++p) {
      const int base = p * kPageTokens;
      shared.await(p);
      if (base + kPageTokens < longest) fetch(p + 1);
      attend(p, base, {contexts[0] - base, contexts[1] - base});
    }
  };
  if constexpr (kGroups) {
    const GroupQueries<kSteps> q(from[0], from[1], t);
    each_page([&](int p, int base, const int(&limits)[2]) {
      if (base + kPageTokens > longest) shared.keep(p, longest - base);
      attend_page_by_group(q, shared.keys(p), shared.values(p), limits, running);
    });
  } else {
    const auto q = load_queries<kSteps>(from[0], from[1], sizes.keys, t);
    each_page([&](int p, int base, const int(&limits)[2]) {
      if (base >= mine || first >= all) return;
      attend_page(q, SharedKeys{shared.keys(p), sizes.keys, stride}, shared.values(p), sizes, limits, mine - base,
                  running);
    });
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

template <class Type>
void write_rows_of(Stream& stream, const AttentionArguments& a) {
  const int units = (a.keys_apart ? 0 : a.heads) + 2 * a.kv_heads;
  const dim3 grid(static_cast<unsigned>((units + kWarps - 1) / kWarps), static_cast<unsigned>(a.rows));
  launch(stream, write_kernel<Type>, grid, kWarps * 32, 0, a);
}

template <class Type>
void attend_tiles_of(Stream& stream, const AttentionArguments& a, int32_t tiles) {
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(a.kv_heads));
  const int bytes = SharedPages<Type, false>::bytes(a.key_size, a.value_size);
  with_steps(a, [&](auto steps) {
    const bool whole = a.key_size == 64 * steps() && a.value_size == 64 * steps();
    const auto kernel = whole ? tiles_kernel<Type, steps(), true> : tiles_kernel<Type, steps(), false>;
    if (bytes > 48 << 10)
      stream.check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    launch(stream, kernel, grid, kWarps * 32, static_cast<size_t>(bytes), a);
  });
}

}  // namespace martlet::cuda
