#pragma once

// Prompts: many rows of one sequence, 64 queries a block that share its pages. Instantiated by attention_*.cu for each
// type of cache.

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

// Sixteen bytes on their way into shared memory.
__device__ inline void copy_later(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from));
}

// Pages in shared memory as halves, keys in rows of `stride`. Where the cache has halves they come there themselves and
// the next page comes beside the one that is read; else it comes as it is cached and is unpacked once all have read.
template <class Type>
struct SharedPages {
  static constexpr bool kPlain = Type::kType == CacheType::f16;
  __half* shared;
  int key_size, value_size, stride;

  __host__ __device__ static int stride_of(int key_size) { return (key_size + 63) / 64 * 64; }
  __host__ __device__ static int halves(int key_size, int value_size) {
    return kPageTokens * (stride_of(key_size) + value_size);
  }
  static int bytes(int key_size, int value_size) {
    const int unpacked = halves(key_size, value_size) * static_cast<int>(sizeof(__half));
    return unpacked + (kPlain ? unpacked : static_cast<int>(format_of(Type::kType).head_bytes(key_size, value_size)));
  }

  __device__ __half* keys(int p) const { return shared + (kPlain ? p % 2 * halves(key_size, value_size) : 0); }
  __device__ __half* values(int p) const { return keys(p) + kPageTokens * stride; }
  __device__ CachedHead<Type> packed() const {
    return {reinterpret_cast<std::byte*>(shared + halves(key_size, value_size)), key_size, value_size};
  }
  // Where chunk i of a page's keys goes, eight halves.
  __device__ __half* key_chunk(int p, int i) const {
    const int token = i / (key_size / 8);
    return keys(p) + token * stride + SharedKeys::place(token, i % (key_size / 8)) * 8;
  }

  __device__ void fetch(int p, const CachedHead<Type>& from) const {
    if constexpr (kPlain) {
      for (int i = threadIdx.x; i < kPageTokens * key_size / 8; i += blockDim.x)
        copy_later(key_chunk(p, i), from.key(0) + i * 8);
      for (int i = threadIdx.x; i < kPageTokens * value_size / 8; i += blockDim.x)
        copy_later(values(p) + i * 8, from.value(0, 0) + i * 8);
    } else {
      const auto bytes = static_cast<int>(from.bytes());
      for (int i = threadIdx.x * 16; i < bytes; i += blockDim.x * 16) copy_later(packed().data + i, from.data + i);
    }
    asm volatile("cp.async.commit_group;");
  }

  // Page p is there for all when this returns, and nobody reads the one before it any more.
  __device__ void await(int p) const {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    if constexpr (!kPlain) {
      const CachedHead<Type> page = packed();
      const int chunks = key_size / 16;
      for (int i = threadIdx.x; i < kPageTokens * chunks; i += blockDim.x) {
        uint32_t k[8];
        page.load_key(i / chunks, i % chunks * 16, k);
        *reinterpret_cast<uint4*>(key_chunk(p, 2 * i)) = {k[0], k[1], k[2], k[3]};
        *reinterpret_cast<uint4*>(key_chunk(p, 2 * i + 1)) = {k[4], k[5], k[6], k[7]};
      }
      for (int i = threadIdx.x; i < kPageTokens / 8 * value_size; i += blockDim.x) {
        const int value = i / 4, token = i % 4 * 8;
        *reinterpret_cast<uint4*>(values(p) + i * 8) =
            Type::halves(page.load_value(value, token), page.load_value_scales(value, token));
      }
      __syncthreads();
    }
  }
};

// 64 queries of one sequence's rows: query i belongs to row i / group and to query head i % group of the key head. The
// block's warps read the same pages from shared memory, 16 queries each.
template <class Type, int kSteps, bool kWhole>
__global__ void __launch_bounds__(kWarps * 32, kSteps <= 2 ? 3 : 1)
    tiles_kernel(const __grid_constant__ AttentionArguments a) {
  extern __shared__ __align__(16) __half pages_in[];
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
  const int stride = SharedPages<Type>::stride_of(sizes.keys);
  const SharedPages<Type> shared{pages_in, sizes.keys, sizes.values, stride};
  const auto fetch = [&](int p) { shared.fetch(p, head_in<Type>(a, pages[p], kv_head, sizes.keys, sizes.values)); };
  Running<kSteps> running;
  fetch(0);
  for (int p = 0; p * kPageTokens < longest; ++p) {
    const int base = p * kPageTokens;
    shared.await(p);
    if (base + kPageTokens < longest) fetch(p + 1);
    if (base < mine && first < all) {
      attend_page(q, SharedKeys{shared.keys(p), sizes.keys, stride}, shared.values(p), sizes,
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

template <class Type>
void write_rows_of(Stream& stream, const AttentionArguments& a) {
  const int units = (a.keys_apart ? 0 : a.heads) + 2 * a.kv_heads;
  const dim3 grid(static_cast<unsigned>((units + kWarps - 1) / kWarps), static_cast<unsigned>(a.rows));
  launch(stream, write_kernel<Type>, grid, kWarps * 32, 0, a);
}

template <class Type>
void attend_tiles_of(Stream& stream, const AttentionArguments& a, int32_t tiles) {
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(a.kv_heads));
  const int bytes = SharedPages<Type>::bytes(a.key_size, a.value_size);
  with_steps(a, [&](auto steps) {
    const bool whole = a.key_size == 64 * steps() && a.value_size == 64 * steps();
    const auto kernel = whole ? tiles_kernel<Type, steps(), true> : tiles_kernel<Type, steps(), false>;
    if (bytes > 48 << 10)
      stream.check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    launch(stream, kernel, grid, kWarps * 32, static_cast<size_t>(bytes), a);
  });
}

}  // namespace martlet::cuda
