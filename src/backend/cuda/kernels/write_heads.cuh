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

// The cached keys of a row's own token and head; its values follow after the page's keys.
__device__ inline __half* own_page(const AttentionArguments& a, int row, int kv_head) {
  const int64_t page = a.step.pages[a.step.row_pages[row] + a.step.positions[row] / kPageTokens];
  return a.cache + page * a.page_halves + int64_t{kv_head} * kPageTokens * (a.key_size + a.value_size);
}

// A query or key, normed, turned and scaled, by one warp. `unit`: query heads first, then key heads. `scratch`: a head.
// kSize: the size of heads where it is known, else 0. Everything is asked for before anything is used.
template <int kSize = 0>
__device__ void write_turned(const AttentionArguments& a, int row, int unit, float* scratch, __half* to) {
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
    const int i = lane + 32 * v;
    if (i < size) to[i] = __float2half_rn((x[v] * turn[v].x + turned_part(a, scratch, i) * turn[v].y) * scale);
  }
  __syncwarp();
}

template <int kSize = 0>
__device__ void write_key(const AttentionArguments& a, int row, int kv_head, float* scratch) {
  const int slot = a.step.positions[row] % kPageTokens;
  write_turned<kSize>(a, row, a.heads + kv_head, scratch, own_page(a, row, kv_head) + slot * a.key_size);
}

__device__ inline void write_value(const AttentionArguments& a, int row, int kv_head) {
  const int keys = (a.heads + a.kv_heads) * a.key_size, slot = a.step.positions[row] % kPageTokens;
  const float* from = a.qkv + int64_t{row} * (keys + a.kv_heads * a.value_size) + keys + kv_head * a.value_size;
  __half* to = own_page(a, row, kv_head) + kPageTokens * a.key_size + slot;
  for (int i = threadIdx.x % 32; i < a.value_size; i += 32) to[i * kPageTokens] = __float2half_rn(from[i]);
}

// Halves past the heads of a row of the output, which a product reads: zero.
__device__ inline void clear_padding(const AttentionArguments& a, int row) {
  const int columns = a.heads * a.value_size;
  if (threadIdx.x < a.stride - columns) a.out[int64_t{row} * a.stride + columns + threadIdx.x] = __half(0);
}

}  // namespace martlet::cuda
