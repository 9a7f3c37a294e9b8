#pragma once

// From a row's projections to turned queries, and to keys and values in their page.

#include "backend/cuda/kernels/attend_page.cuh"

namespace martlet::cuda {

// What the sine multiplies in value i of a head (RoPE, Su et al. 2021): x cos - y sin, y cos + x sin for pairs (x, y).
__device__ inline float turned_part(const AttentionArguments& a, const float* head, int i) {
  if (i >= 2 * a.pairs) return 0;
  if (a.interleaved) return i % 2 == 1 ? head[i - 1] : -head[i + 1];
  return i >= a.pairs ? head[i - a.pairs] : -head[i + a.pairs];
}

// A key head in a page, by its number.
template <class Type>
__device__ CachedHead<Type> head_in(const AttentionArguments& a, int64_t page, int kv_head, int keys, int values) {
  const int64_t bytes = format_of(Type::kType).head_bytes(keys, values);
  return {a.cache + page * a.page_bytes + kv_head * bytes, keys, values};
}

// A query or key, normed, turned and scaled, by one warp. `unit`: query heads first, then key heads. `scratch`: a head.
// kSize: the size of heads where it is known, else 0. Everything is asked for before anything is used. The whole warp
// calls to(first, x), with 32 values at a time: x is the one at first + the lane's number.
template <int kSize, class To>
__device__ void write_turned(const AttentionArguments& a, int row, int unit, float* scratch, const To& to) {
  constexpr int kValues = (kSize != 0 ? kSize : kMaxHeadSize) / 32;  // of a lane
  const int lane = threadIdx.x % 32, size = kSize != 0 ? kSize : a.key_size;
  const bool query = unit < a.heads;
  const float* from = a.qkv + int64_t{row} * ((a.heads + a.kv_heads) * size + a.kv_heads * a.value_size) + unit * size;
  const float* norm = query ? a.q_norm : a.k_norm;
  const float2* turns = a.turns + int64_t{row} * a.pairs;
  float x[kValues], weights[kValues];
  float2 turn[kValues];
#pragma unroll
  for (int v = 0; v < kValues; ++v) {
    if (32 * v >= size) break;
    const int i = min(lane + 32 * v, size - 1);
    x[v] = from[i];
    weights[v] = norm ? norm[i] : 1;
    turn[v] = i < 2 * a.pairs ? turns[a.interleaved ? i / 2 : i < a.pairs ? i : i - a.pairs] : make_float2(1, 0);
  }
  float factor = 1;
  if (norm) {
    float squares = 0;
#pragma unroll
    for (int v = 0; v < kValues; ++v) {
      if (32 * v >= size) break;
      squares += lane + 32 * v < size ? x[v] * x[v] : 0;
    }
    for (int offset = 16; offset > 0; offset /= 2) squares += __shfl_xor_sync(~0u, squares, offset);
    factor = rsqrtf(squares / static_cast<float>(size) + (query ? a.q_epsilon : a.k_epsilon));
  }
#pragma unroll
  for (int v = 0; v < kValues; ++v) {
    if (32 * v >= size) break;
    x[v] *= factor * weights[v];
    if (lane + 32 * v < size) scratch[lane + 32 * v] = x[v];
  }
  __syncwarp();
  const float scale = query ? a.scale * kLog2E : 1;
#pragma unroll
  for (int v = 0; v < kValues; ++v) {
    if (32 * v >= size) break;
    const int i = min(lane + 32 * v, size - 1);
    to(32 * v, (x[v] * turn[v].x + turned_part(a, scratch, i) * turn[v].y) * scale);
  }
  __syncwarp();
}

template <int kSize>
__device__ void write_query(const AttentionArguments& a, int row, int head, float* scratch, __half* to) {
  const int lane = threadIdx.x % 32, size = kSize != 0 ? kSize : a.key_size;
  write_turned<kSize>(a, row, head, scratch, [&](int first, float x) {
    if (first + lane < size) to[first + lane] = __float2half_rn(x);
  });
}

// Into slot `slot` of a page.
template <int kSize, class Type>
__device__ void write_key(const AttentionArguments& a, int row, int kv_head, float* scratch,
                          const CachedHead<Type>& page, int slot) {
  write_turned<kSize>(a, row, a.heads + kv_head, scratch, [&](int first, float x) { page.store_key(slot, first, x); });
}

template <int kSize, class Type>
__device__ void write_value(const AttentionArguments& a, int row, int kv_head, const CachedHead<Type>& page, int slot) {
  constexpr int kValues = (kSize != 0 ? kSize : kMaxHeadSize) / 32;  // of a lane
  const int lane = threadIdx.x % 32, size = kSize != 0 ? kSize : a.value_size;
  const int keys = (a.heads + a.kv_heads) * (kSize != 0 ? kSize : a.key_size);
  const float* from = a.qkv + int64_t{row} * (keys + a.kv_heads * size) + keys + kv_head * size;
  float x[kValues];
#pragma unroll
  for (int v = 0; v < kValues; ++v) {
    if (32 * v >= size) break;
    x[v] = from[min(lane + 32 * v, size - 1)];
  }
#pragma unroll
  for (int v = 0; v < kValues; ++v) {
    if (32 * v >= size) break;
    page.store_value(slot, 32 * v, x[v]);
  }
}

// Halves past the heads of a row of the output, which a product reads: zero.
__device__ inline void clear_padding(const AttentionArguments& a, int row) {
  const int columns = a.heads * a.value_size;
  if (threadIdx.x < a.stride - columns) a.out[int64_t{row} * a.stride + columns + threadIdx.x] = __half(0);
}

}  // namespace martlet::cuda
