#pragma once

// Attention of a warp group: as attend_page(), with products of all its four warps at once.

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
__device__ inline void mask_group_scores(const int (&limits)[2], int t, float (&scores)[4][4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (8 * i + 2 * t + c % 2 >= limits[c / 2]) scores[i][c] = -INFINITY;
    }
  }
}

// One page of keys and values of 64 kSteps values, as SharedPages has them for groups. `limits`: tokens of the page
// that query g and query g + 8 see; what lies behind all limits of the group has zeros as values.
template <int kSteps>
__device__ void attend_page_by_group(const GroupQueries<kSteps>& q, const __half* keys, const __half* values,
                                     const int (&limits)[2], Running<kSteps>& running) {
  float scores[4][4] = {}, factors[2];
  begin_products();
#pragma unroll
  for (int s = 0; s < 4 * kSteps; ++s)
    multiply_group(scores, q.halves[s], operand_at<128>(keys + s / 4 * kPageTokens * 64 + s % 4 * 16), s > 0);
  finish_products(scores);
  if (!__all_sync(~0u, min(limits[0], limits[1]) >= kPageTokens)) mask_group_scores(limits, threadIdx.x % 4, scores);
  weigh(scores, running, factors);
  rescale(factors, running);
  uint32_t p[2][4];
  pack_weights(scores, p);
  begin_products();
#pragma unroll
  for (int u = 0; u < 2; ++u) multiply_group(running.out, p[u], operand_at<64>(values + 16 * u));
  finish_products(running.out);
}

}  // namespace martlet::cuda
