#pragma once

// Prompts: many rows of one sequence, 64 queries a block that share its pages. Instantiated by attention_*.cu for each
// type of cache.

#include "backend/cuda/kernels/attend_strip.cuh"
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

// Heads whose sizes the products of warp groups fit.
constexpr bool takes_groups(int steps, bool whole) {
  return whole && steps <= 2;
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
  const auto query_of = [&](int h) { return min(first + g + 8 * h, all - 1); };
  const auto row_of = [&](int h) { return tile.first_row + query_of(h) / group; };
  const auto head_of = [&](int h) { return kv_head * group + query_of(h) % group; };
  const auto from = [&](int h) { return a.queries + (int64_t{row_of(h)} * a.heads + head_of(h)) * sizes.keys; };
  const int contexts[2] = {a.step.positions[row_of(0)] + 1, a.step.positions[row_of(1)] + 1};
  const auto context_of = [&](int query) { return a.step.positions[tile.first_row + min(query, all - 1) / group] + 1; };
  const int mine = context_of(first + kQueries - 1), longest = context_of(tile.first_query + kTileQueries - 1);
  const int32_t* pages = a.step.pages + a.step.row_pages[tile.first_row];
  constexpr bool kGroups = has_warp_groups() && takes_groups(kSteps, kWhole);
  using Shared = SharedPages<Type, kGroups>;
  const Shared shared{pages_in, sizes.keys, sizes.values, longest};
  const auto page_at = [&](int i) { return head_in<Type>(a, pages[i], kv_head, sizes.keys, sizes.values); };
  Running<kSteps> running;
  const auto each_strip = [&](const auto& attend) {
    shared.fetch(0, page_at);
    for (int strip = 0; strip * Shared::kTokens < longest; ++strip) {
      const int base = strip * Shared::kTokens;
      shared.await(strip);
      if (base + Shared::kTokens < longest) shared.fetch(strip + 1, page_at);
      attend(strip, base, {contexts[0] - base, contexts[1] - base});
    }
  };
  if constexpr (kGroups) {
    GroupQueries<kSteps> q(from(0), from(1), t);
    each_strip([&](int strip, int, const int(&limits)[2]) {
      attend_strip(q, shared.keys(strip), shared.values(strip), limits, running);
    });
  } else {
    const auto q = load_queries<kSteps>(from(0), from(1), sizes.keys, t);
    each_strip([&](int strip, int base, const int(&limits)[2]) {
      if (base >= mine || first >= all) return;
      const SharedKeys keys{shared.keys(strip), sizes.keys, Shared::stride_of(sizes.keys)};
      attend_page(q, keys, shared.values(strip), sizes, limits, mine - base, running);
    });
  }
  finish_sums(running);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (first + g + 8 * h >= all) continue;
    __half* out = a.out + int64_t{row_of(h)} * a.stride + head_of(h) * sizes.values;
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
  with_steps(a, [&](auto steps) {
    const bool whole = a.key_size == 64 * steps() && a.value_size == 64 * steps();
    const auto kernel = whole ? tiles_kernel<Type, steps(), true> : tiles_kernel<Type, steps(), false>;
    // Devices that launch kernels dependently may have warp groups.
    const int bytes = stream.dependent && takes_groups(steps(), whole)
                          ? SharedPages<Type, true>::bytes(a.key_size, a.value_size)
                          : SharedPages<Type, false>::bytes(a.key_size, a.value_size);
    if (bytes > 48 << 10)
      stream.check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    launch(stream, kernel, grid, kWarps * 32, static_cast<size_t>(bytes), a);
  });
}

}  // namespace martlet::cuda
