#pragma once

// Attention of a warp: sixteen queries over the pages of a sequence, one after another, with one running softmax.

#include <algorithm>
#include <type_traits>

#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/cached.cuh"

namespace martlet::cuda {

constexpr int kWarps = 4;
constexpr int kQueries = 16;  // of a warp
constexpr float kLog2E = 1.44269504f;

// What a warp knows of its queries over the keys seen so far. Index 0: query g, 1: query g + 8. Sums are the lane's
// own.
template <int kSteps>
struct Running {
  float out[kSteps * 8][4] = {};
  float largest[2] = {-INFINITY, -INFINITY}, sums[2] = {};
};

// Sizes of a head: known where kWhole, and then as large as kSteps steps of 64 values hold.
template <int kSteps, bool kWhole>
struct HeadSizes {
  static constexpr int kKnown = kWhole ? 64 * kSteps : 0;
  const int keys, values;
  __device__ explicit HeadSizes(const AttentionArguments& a)
      : keys(kWhole ? kKnown : a.key_size), values(kWhole ? kKnown : a.value_size) {}
};

template <int kSteps>
struct Queries {
  uint32_t halves[kSteps][16];
};

__device__ inline void load_half_row(const __half* row, int size, int first, uint32_t* out) {
  uint4 a = {}, b = {};
  if (row && first < size) {
    a = *reinterpret_cast<const uint4*>(row + first);
    b = *reinterpret_cast<const uint4*>(row + first + 8);
  }
  out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w;
  out[4] = b.x, out[5] = b.y, out[6] = b.z, out[7] = b.w;
}

// 2^x, to two units in the last place.
__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <int kSteps>
__device__ Queries<kSteps> load_queries(const __half* low, const __half* high, int size, int t) {
  Queries<kSteps> out;
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    load_half_row(low, size, 64 * s + 16 * t, out.halves[s]);
    load_half_row(high, size, 64 * s + 16 * t, out.halves[s] + 8);
  }
  return out;
}

// Scores of a page's 32 tokens. Tile i of eight holds tokens 8c + 2i + e in its columns 2c + e, so that a lane's eight
// scores of a query are those of tokens 8t .. 8t + 7.
template <int kSteps, class Keys>
__device__ void score(const Queries<kSteps>& q, const Keys& keys, float (&scores)[4][4]) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      uint32_t k[8];
      keys.load(g / 2 * 8 + 2 * i + g % 2, 64 * s + 16 * t, k);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        multiply_add(scores[i], q.halves[s][2 * j], q.halves[s][8 + 2 * j], q.halves[s][2 * j + 1],
                     q.halves[s][9 + 2 * j], k[2 * j], k[2 * j + 1]);
      }
    }
  }
}

__device__ inline uint32_t pack(float a, float b) {
  return as_bits(__floats2half2_rn(a, b));
}

// Which bits of eight tokens' halves count: what lies from `valid` on may be anything, also NaN.
__device__ inline uint4 kept_tokens(int first, int valid) {
  const auto pair = [&](int i) { return first + i + 1 < valid ? ~0u : first + i < valid ? 0xffffu : 0u; };
  return {pair(0), pair(2), pair(4), pair(6)};
}

// Scores of tokens from limits[h] on, of query g + 8h: nothing is seen there.
__device__ inline void mask_scores(const int (&limits)[2], int t, float (&scores)[4][4]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (8 * t + 2 * i + e >= limits[h]) scores[i][2 * h + e] = -INFINITY;
      }
    }
  }
}

// Scores become weights over the largest score so far, and are counted. What was summed over the largest before is to
// be multiplied by `factors`.
template <int kSteps, int kTiles>
__device__ void weigh(float (&scores)[kTiles][4], Running<kSteps>& running, float (&factors)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float largest = running.largest[h];
#pragma unroll
    for (int i = 0; i < kTiles; ++i) largest = fmaxf(largest, fmaxf(scores[i][2 * h], scores[i][2 * h + 1]));
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
    const float base = largest == -INFINITY ? 0 : largest;  // the query sees nothing yet
    factors[h] = power_of_two(running.largest[h] - base);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& s = scores[i][2 * h + e];
        s = power_of_two(s - base);
        sum += s;
      }
    }
    running.sums[h] = running.sums[h] * factors[h] + sum;
    running.largest[h] = largest;
  }
}

// Weights of sixteen tokens after another as the first operand of their products with values.
template <int kSixteens>
__device__ void pack_weights(const float (&weights)[2 * kSixteens][4], uint32_t (&p)[kSixteens][4]) {
#pragma unroll
  for (int u = 0; u < kSixteens; ++u) {
    p[u][0] = pack(weights[2 * u][0], weights[2 * u][1]);
    p[u][1] = pack(weights[2 * u][2], weights[2 * u][3]);
    p[u][2] = pack(weights[2 * u + 1][0], weights[2 * u + 1][1]);
    p[u][3] = pack(weights[2 * u + 1][2], weights[2 * u + 1][3]);
  }
}

template <int kSteps>
__device__ void rescale(const float (&factors)[2], Running<kSteps>& running) {
  if (!__any_sync(~0u, factors[0] != 1 || factors[1] != 1)) return;  // rare once a few pages are seen
#pragma unroll
  for (int n = 0; n < kSteps * 8; ++n) {
    running.out[n][0] *= factors[0], running.out[n][1] *= factors[0];
    running.out[n][2] *= factors[1], running.out[n][3] *= factors[1];
  }
}

// The values of a page's tokens, each times its weight, are added to the running output. `valid`: as attend_page().
template <int kSteps, bool kWhole>
__device__ void add_values(const float (&weights)[4][4], const __half* values, const HeadSizes<kSteps, kWhole>& sizes,
                           int valid, Running<kSteps>& running) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  uint32_t p[2][4];
  pack_weights(weights, p);
  const uint4 kept = kept_tokens(8 * t, valid);
#pragma unroll
  for (int n = 0; n < kSteps * 8; ++n) {
    if (8 * n >= sizes.values) break;
    float(&out)[4] = running.out[n];
    uint4 v = *reinterpret_cast<const uint4*>(values + (8 * n + g) * kPageTokens + 8 * t);
    if (valid < kPageTokens) v.x &= kept.x, v.y &= kept.y, v.z &= kept.z, v.w &= kept.w;
    multiply_add(out, p[0][0], p[0][1], p[0][2], p[0][3], v.x, v.y);
    multiply_add(out, p[1][0], p[1][1], p[1][2], p[1][3], v.z, v.w);
  }
}

// One page of keys and values. `limits`: tokens of the page that query g and query g + 8 see; `valid`: that hold
// anything.
template <int kSteps, bool kWhole, class Keys>
__device__ void attend_page(const Queries<kSteps>& q, const Keys& keys, const __half* values,
                            const HeadSizes<kSteps, kWhole>& sizes, const int (&limits)[2], int valid,
                            Running<kSteps>& running) {
  float scores[4][4] = {}, factors[2];
  score(q, keys, scores);
  if (!__all_sync(~0u, min(limits[0], limits[1]) >= kPageTokens)) mask_scores(limits, threadIdx.x % 4, scores);
  weigh(scores, running, factors);
  rescale(factors, running);
  add_values(scores, values, sizes, valid, running);
}

template <int kSteps>
__device__ void finish_sums(Running<kSteps>& running) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    running.sums[h] += __shfl_xor_sync(~0u, running.sums[h], 1);
    running.sums[h] += __shfl_xor_sync(~0u, running.sums[h], 2);
  }
}

// Calls f with the 64-value steps of a head as a constant.
template <class Function>
void with_steps(const AttentionArguments& a, Function&& f) {
  const int size = std::max(a.key_size, a.value_size);
  if (size <= 64) return f(std::integral_constant<int, 1>());
  if (size <= 128) return f(std::integral_constant<int, 2>());
  return f(std::integral_constant<int, 4>());
}

}  // namespace martlet::cuda
