#pragma once

// Attention of a warp group: as attend_page(), with products of all its four warps at once and 64 tokens of keys.

#include "backend/cuda/kernels/attend_page.cuh"
#include "backend/cuda/kernels/warp_group.cuh"

namespace martlet::cuda {

// A lane's part of the warp's queries, for each sixteen values.
template <int kSteps>
struct GroupQueries {
  uint32_t halves[4 * kSteps][4];

  // Of queries g and g + 8.
  __device__ GroupQueries(const __half* low, const __half* high, int t) {
    const auto pair = [](const __half* row, int at) { return *reinterpret_cast<const uint32_t*>(row + at); };
#pragma unroll
    for (int s = 0; s < 4 * kSteps; ++s) {
      const int at = 16 * s + 2 * t;
      halves[s][0] = pair(low, at), halves[s][1] = pair(high, at);
      halves[s][2] = pair(low, at + 8), halves[s][3] = pair(high, at + 8);
    }
  }
};

// Scores of tokens from limits[h] on: tile i has tokens 8i + 2t + e.
__device__ inline void mask_group_scores(const int (&limits)[2], int t, float (&scores)[8][4]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (8 * i + 2 * t + c % 2 >= limits[c / 2]) scores[i][c] = -INFINITY;
    }
  }
}

// Queues products of the queries with 64 keys. Heads of 64 values take 32 keys at a time: else both products of a strip
// have one shape, and the assembler of CUDA 13.0 gives registers of the queries to the weights, though a loop reads
// them again.
template <int kSteps>
__device__ void score_strip(const GroupQueries<kSteps>& q, uint64_t keys, float (&scores)[8][4]) {
  constexpr int kAllKeys = 64 * 8;  // chunks of 64 values of each
#pragma unroll
  for (int s = 0; s < 4 * kSteps; ++s) {
    const uint64_t at = keys + s / 4 * kAllKeys + s % 4 * 2;
    if constexpr (kSteps == 1) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        multiply_group(*reinterpret_cast<float(*)[4][4]>(scores[4 * half]), q.halves[s], at + half * kAllKeys / 2,
                       s > 0);
    } else {
      multiply_group(scores, q.halves[s], at, s > 0);
    }
  }
}

// 64 tokens of keys and values of 64 kSteps values each, as SharedPages has them for groups. `limits`: tokens that
// query g and query g + 8 see.
template <int kSteps>
__device__ void attend_strip(GroupQueries<kSteps>& q, const __half* keys, const __half* values, const int (&limits)[2],
                             Running<kSteps>& running) {
  constexpr int kTokens = 64;
  float scores[8][4] = {}, factors[2];
  const uint64_t all_keys = operand_at(keys), all_values = operand_at(values);
  begin_products(q.halves, scores);
  score_strip(q, all_keys, scores);
  finish_products(scores);
  if (!__all_sync(~0u, min(limits[0], limits[1]) >= kTokens)) mask_group_scores(limits, threadIdx.x % 4, scores);
  weigh(scores, running, factors);
  rescale(factors, running);
  uint32_t p[4][4];
  pack_weights(scores, p);
  begin_products(p, running.out);
#pragma unroll
  for (int u = 0; u < 4; ++u) multiply_group(running.out, p[u], all_values + 2 * u, true);
  finish_products(running.out);
}

}  // namespace martlet::cuda
