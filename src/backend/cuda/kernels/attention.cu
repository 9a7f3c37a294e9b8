#include "backend/cuda/kernels/attention.h"

#include <algorithm>

#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/unpack.cuh"

namespace martlet::cuda {
namespace {

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

// Keys of a page where they are cached: [token][key_size].
struct CachedKeys {
  const __half* keys;
  int size;
  __device__ void load(int token, int first, uint32_t* out) const {
    load_half_row(keys + token * size, size, first, out);
  }
};

// Keys of a page in shared memory. Chunks of eight halves are swapped about inside a row so that no two lanes of a
// quarter warp meet in a bank.
struct SharedKeys {
  const __half* keys;
  int size, stride;
  static __device__ int place(int token, int chunk) { return chunk ^ (token & 7); }
  __device__ void load(int token, int first, uint32_t* out) const {
    uint4 a = {}, b = {};
    if (first < size) {
      const uint4* row = reinterpret_cast<const uint4*>(keys + token * stride);
      a = row[place(token, first / 8)];
      b = row[place(token, first / 8 + 1)];
    }
    out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w;
    out[4] = b.x, out[5] = b.y, out[6] = b.z, out[7] = b.w;
  }
};

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

// Halves of tokens from `valid` on become zero: what lies there may be anything, also NaN.
__device__ inline uint32_t keep_tokens(uint32_t pair, int first, int valid) {
  return first + 1 < valid ? pair : first < valid ? pair & 0xffff : 0;
}

// One page of keys and values. `limits`: tokens of the page that query g and query g + 8 see; `valid`: that hold
// anything.
template <int kSteps, class Keys>
__device__ void attend_page(const Queries<kSteps>& q, const Keys& keys, const __half* values, int value_size,
                            const int (&limits)[2], int valid, Running<kSteps>& running) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  float scores[4][4] = {};
  score(q, keys, scores);
  float factors[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float largest = running.largest[h];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& s = scores[i][2 * h + e];
        if (8 * t + 2 * i + e >= limits[h]) s = -INFINITY;
        largest = fmaxf(largest, s);
      }
    }
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
    const float base = largest == -INFINITY ? 0 : largest;  // the query sees nothing yet
    factors[h] = exp2f(running.largest[h] - base);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& s = scores[i][2 * h + e];
        s = exp2f(s - base);
        sum += s;
      }
    }
    running.sums[h] = running.sums[h] * factors[h] + sum;
    running.largest[h] = largest;
  }
  uint32_t p[2][4];
#pragma unroll
  for (int u = 0; u < 2; ++u) {
    p[u][0] = pack(scores[2 * u][0], scores[2 * u][1]);
    p[u][1] = pack(scores[2 * u][2], scores[2 * u][3]);
    p[u][2] = pack(scores[2 * u + 1][0], scores[2 * u + 1][1]);
    p[u][3] = pack(scores[2 * u + 1][2], scores[2 * u + 1][3]);
  }
#pragma unroll
  for (int n = 0; n < kSteps * 8; ++n) {
    if (8 * n >= value_size) break;
    float(&out)[4] = running.out[n];
    out[0] *= factors[0], out[1] *= factors[0];
    out[2] *= factors[1], out[3] *= factors[1];
    uint4 v = *reinterpret_cast<const uint4*>(values + (8 * n + g) * kPageTokens + 8 * t);
    if (valid < kPageTokens) {
      v.x = keep_tokens(v.x, 8 * t, valid), v.y = keep_tokens(v.y, 8 * t + 2, valid);
      v.z = keep_tokens(v.z, 8 * t + 4, valid), v.w = keep_tokens(v.w, 8 * t + 6, valid);
    }
    multiply_add(out, p[0][0], p[0][1], p[0][2], p[0][3], v.x, v.y);
    multiply_add(out, p[1][0], p[1][1], p[1][2], p[1][3], v.z, v.w);
  }
}

template <int kSteps>
__device__ void finish_sums(Running<kSteps>& running) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    running.sums[h] += __shfl_xor_sync(~0u, running.sums[h], 1);
    running.sums[h] += __shfl_xor_sync(~0u, running.sums[h], 2);
  }
}

// Merges `count` partial results, `from` floats apart: {largest, sum, values}. Returns value d, sets the others.
__device__ inline float merged(const float* part, int64_t from, int count, int d, float& largest, float& sum) {
  largest = -INFINITY;
  for (int i = 0; i < count; ++i) largest = fmaxf(largest, __ldcg(part + i * from));
  float value = 0;
  sum = 0;
  for (int i = 0; i < count; ++i) {
    const float factor = exp2f(__ldcg(part + i * from) - largest);
    sum += __ldcg(part + i * from + 1) * factor;
    value += __ldcg(part + i * from + 2 + d) * factor;
  }
  return value;
}

// Value i of a head after its rotation (RoPE, Su et al. 2021): x cos - y sin, y cos + x sin for pairs (x, y).
__device__ inline float turned(const float* head, int i, const float2* turns, int pairs, bool interleaved) {
  if (i >= 2 * pairs) return head[i];
  const int pair = interleaved ? i / 2 : i % pairs;
  const bool second = interleaved ? i % 2 == 1 : i >= pairs;
  const int other = interleaved ? i ^ 1 : second ? i - pairs : i + pairs;
  const float2 turn = turns[pair];
  return head[i] * turn.x + (second ? head[other] : -head[other]) * turn.y;
}

// The cached keys of a row's own token and head; its values follow after the page's keys.
__device__ inline __half* own_page(const AttentionArguments& a, int row, int kv_head) {
  const int64_t page = a.step.pages[a.step.row_pages[row] + a.step.positions[row] / kPageTokens];
  return a.cache + page * a.page_halves + int64_t{kv_head} * kPageTokens * (a.key_size + a.value_size);
}

// A query or key, normed, turned and scaled, by one warp. `unit`: query heads first, then key heads. `scratch`: a head.
__device__ void write_turned(const AttentionArguments& a, int row, int unit, float* scratch, __half* to) {
  const int lane = threadIdx.x % 32, size = a.key_size;
  const bool query = unit < a.heads;
  const float* from = a.qkv + int64_t{row} * ((a.heads + a.kv_heads) * size + a.kv_heads * a.value_size) + unit * size;
  const float* norm = query ? a.q_norm : a.k_norm;
  float squares = 0;
  for (int i = lane; i < size; i += 32) {
    scratch[i] = from[i];
    squares += from[i] * from[i];
  }
  if (norm) {
    for (int offset = 16; offset > 0; offset /= 2) squares += __shfl_xor_sync(~0u, squares, offset);
    const float factor = rsqrtf(squares / static_cast<float>(size) + (query ? a.q_epsilon : a.k_epsilon));
    for (int i = lane; i < size; i += 32) scratch[i] *= factor * norm[i];
  }
  __syncwarp();
  const float scale = query ? a.scale * kLog2E : 1;
  for (int i = lane; i < size; i += 32)
    to[i] = __float2half_rn(turned(scratch, i, a.turns + int64_t{row} * a.pairs, a.pairs, a.interleaved) * scale);
  __syncwarp();
}

__device__ void write_key(const AttentionArguments& a, int row, int kv_head, float* scratch) {
  const int slot = a.step.positions[row] % kPageTokens;
  write_turned(a, row, a.heads + kv_head, scratch, own_page(a, row, kv_head) + slot * a.key_size);
}

__device__ void write_value(const AttentionArguments& a, int row, int kv_head) {
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

// One span of one row for up to 16 query heads of a key head: the block's warps share its pages.
template <int kSteps>
struct RowUnit {
  const AttentionArguments& a;
  int span, row, unit, kv_head, first_head, heads;

  __device__ RowUnit(const AttentionArguments& a, int item) : a(a) {
    const int group = a.heads / a.kv_heads, head_tiles = (group + kQueries - 1) / kQueries;
    const int units = a.kv_heads * head_tiles;
    span = item / units;
    unit = item % units;
    row = a.step.span_rows[span];
    kv_head = unit / head_tiles;
    first_head = kv_head * group + unit % head_tiles * kQueries;
    heads = min(kQueries, (kv_head + 1) * group - first_head);
  }

  __device__ int in_row() const { return span - a.step.row_spans[row]; }
  __device__ int spans() const { return a.step.row_spans[row + 1] - a.step.row_spans[row]; }

  // Asks for the span's keys and values, while what the queries are made of is still being computed.
  __device__ void fetch() const {
    const int context = a.step.positions[row] + 1, first = in_row() * kSpanTokens;
    const int used = (min(kSpanTokens, context - first) + kPageTokens - 1) / kPageTokens;
    const int32_t* pages = a.step.pages + a.step.row_pages[row] + first / kPageTokens;
    const int64_t head_halves = int64_t{kPageTokens} * (a.key_size + a.value_size);
    const int lines = static_cast<int>(head_halves * 2 / 128);
    for (int i = threadIdx.x; i < used * lines; i += blockDim.x) {
      const __half* page = a.cache + pages[i / lines] * a.page_halves + kv_head * head_halves;
      asm volatile("prefetch.global.L2 [%0];" ::"l"(page + i % lines * 64));
    }
  }

  // The heads' queries into shared memory, and, with the last span, the row's own keys and values into the cache.
  __device__ void prepare(__half* queries, float* scratch) const {
    if (unit == 0 && in_row() == 0) clear_padding(a, row);
    scratch += threadIdx.x / 32 * kMaxHeadSize;
    const int work = heads + (in_row() + 1 == spans() ? 2 : 0);
    for (int i = threadIdx.x / 32; i < work; i += kWarps) {
      if (i < heads) {
        write_turned(a, row, first_head + i, scratch, queries + i * a.key_size);
      } else if (i == heads) {
        write_key(a, row, kv_head, scratch);
      } else {
        write_value(a, row, kv_head);
      }
    }
  }

  __device__ void attend(const __half* queries, float* shared) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const auto q = load_queries<kSteps>(queries + min(g, heads - 1) * a.key_size,
                                        queries + min(g + 8, heads - 1) * a.key_size, a.key_size, t);
    const int context = a.step.positions[row] + 1, first = in_row() * kSpanTokens;
    const int tokens = min(kSpanTokens, context - first);
    const int32_t* pages = a.step.pages + a.step.row_pages[row] + first / kPageTokens;
    const int64_t head_halves = int64_t{kPageTokens} * (a.key_size + a.value_size);
    Running<kSteps> running;
    for (int p = warp; p * kPageTokens < tokens; p += kWarps) {
      const int limit = min(kPageTokens, tokens - p * kPageTokens);
      const __half* keys = a.cache + pages[p] * a.page_halves + kv_head * head_halves;
      attend_page(q, CachedKeys{keys, a.key_size}, keys + kPageTokens * a.key_size, a.value_size, {limit, limit}, limit,
                  running);
    }
    finish_sums(running);
    const int stride = 2 + a.value_size;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float* at = shared + (warp * kQueries + g + 8 * h) * stride;
      if (t == 0) at[0] = running.largest[h], at[1] = running.sums[h];
#pragma unroll
      for (int n = 0; n < kSteps * 8; ++n) {
        if (8 * n >= a.value_size) break;
        at[2 + 8 * n + 2 * t] = running.out[n][2 * h];
        at[3 + 8 * n + 2 * t] = running.out[n][2 * h + 1];
      }
    }
  }

  __device__ __half* out(int head) const {
    return a.out + int64_t{row} * a.stride + (first_head + head) * a.value_size;
  }
  __device__ float* partial(int of_span, int head) const {
    return a.partials + (int64_t{of_span} * a.heads + first_head + head) * (2 + a.value_size);
  }

  // The warps' results into one: the row's own when it has one span.
  __device__ void merge_warps(const float* shared) const {
    const int stride = 2 + a.value_size;
    for (int i = threadIdx.x; i < heads * a.value_size; i += blockDim.x) {
      const int head = i / a.value_size, d = i % a.value_size;
      float largest = -INFINITY, sum = 0, value = 0;
      for (int w = 0; w < kWarps; ++w) largest = fmaxf(largest, shared[(w * kQueries + head) * stride]);
      for (int w = 0; w < kWarps; ++w) {
        const float* at = shared + (w * kQueries + head) * stride;
        const float factor = exp2f(at[0] - largest);
        sum += at[1] * factor;
        value += at[2 + d] * factor;
      }
      if (spans() == 1) {
        out(head)[d] = __float2half_rn(value / sum);
      } else {
        float* to = partial(span, head);
        if (d == 0) to[0] = largest, to[1] = sum;
        to[2 + d] = value;
      }
    }
  }

  __device__ void merge_spans() const {
    const int64_t from = int64_t{a.heads} * (2 + a.value_size);
    for (int i = threadIdx.x; i < heads * a.value_size; i += blockDim.x) {
      const int head = i / a.value_size, d = i % a.value_size;
      float largest, sum;
      const float value = merged(partial(a.step.row_spans[row], head), from, spans(), d, largest, sum);
      out(head)[d] = __float2half_rn(value / sum);
    }
  }

  // Whether this block is the last of the row's spans to get here.
  __device__ bool last_to_finish(bool* shared) const {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned* count = a.finished + row * kMergeUnits + unit;
      *shared = atomicAdd(count, 1) == static_cast<unsigned>(spans()) - 1;
      if (*shared) *count = 0;
      __threadfence();
    }
    __syncthreads();
    return *shared;
  }
};

template <int kSteps>
__global__ void __launch_bounds__(kWarps * 32) rows_kernel(const __grid_constant__ AttentionArguments a) {
  extern __shared__ float shared[];
  __shared__ __align__(16) __half queries[kQueries * kMaxHeadSize];
  __shared__ float scratch[kWarps * kMaxHeadSize];
  __shared__ bool last;
  start_next();
  // What the step is was there before its first kernel.
  const int group = a.heads / a.kv_heads;
  const int items = *a.step.span_count * a.kv_heads * ((group + kQueries - 1) / kQueries);
  if (static_cast<int>(blockIdx.x) < items) RowUnit<kSteps>(a, blockIdx.x).fetch();
  wait_for_input();
  for (int item = blockIdx.x; item < items; item += gridDim.x) {
    const RowUnit<kSteps> unit(a, item);
    unit.prepare(queries, scratch);
    __syncthreads();
    unit.attend(queries, shared);
    __syncthreads();
    unit.merge_warps(shared);
    if (unit.spans() > 1 && unit.last_to_finish(&last)) unit.merge_spans();
    __syncthreads();
  }
}

// A page's keys and values of one head on their way into shared memory.
__device__ void fetch_page(const AttentionArguments& a, const __half* page, __half* keys, int stride, __half* values) {
  const auto copy = [](__half* to, const __half* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
                 "l"(from));
  };
  const int chunks = a.key_size / 8;
  for (int i = threadIdx.x; i < kPageTokens * chunks; i += blockDim.x) {
    const int token = i / chunks;
    copy(keys + token * stride + SharedKeys::place(token, i % chunks) * 8, page + i * 8);
  }
  for (int i = threadIdx.x; i < kPageTokens * a.value_size / 8; i += blockDim.x)
    copy(values + i * 8, page + kPageTokens * a.key_size + i * 8);
  asm volatile("cp.async.commit_group;");
}

// 64 queries of one sequence's rows: query i belongs to row i / group and to query head i % group of the key head. The
// block's warps read the same pages from shared memory, 16 queries each.
template <int kSteps>
__global__ void __launch_bounds__(kWarps * 32) tiles_kernel(const __grid_constant__ AttentionArguments a) {
  extern __shared__ __align__(16) __half pages_in[];  // keys and values of two pages
  start_next();
  wait_for_input();
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
    from[h] = a.queries + (int64_t{rows[h]} * a.heads + heads[h]) * a.key_size;
  }
  const auto q = load_queries<kSteps>(from[0], from[1], a.key_size, t);
  const auto context_of = [&](int query) { return a.step.positions[tile.first_row + min(query, all - 1) / group] + 1; };
  const int mine = context_of(first + kQueries - 1), longest = context_of(tile.first_query + kTileQueries - 1);
  const int32_t* pages = a.step.pages + a.step.row_pages[tile.first_row];
  const __half* cache = a.cache + int64_t{kv_head} * kPageTokens * (a.key_size + a.value_size);
  const int stride = (a.key_size + 63) / 64 * 64, page_size = kPageTokens * (stride + a.value_size);
  const auto fetch = [&](int p) {
    __half* keys = pages_in + p % 2 * page_size;
    fetch_page(a, cache + pages[p] * a.page_halves, keys, stride, keys + kPageTokens * stride);
  };
  Running<kSteps> running;
  fetch(0);
  for (int p = 0; p * kPageTokens < longest; ++p) {
    const int base = p * kPageTokens;
    if (base + kPageTokens < longest) fetch(p + 1);
    if (base + kPageTokens < longest) {
      asm volatile("cp.async.wait_group 1;");
    } else {
      asm volatile("cp.async.wait_group 0;");
    }
    __syncthreads();
    const __half* keys = pages_in + p % 2 * page_size;
    if (base < mine && first < all) {
      attend_page(q, SharedKeys{keys, a.key_size, stride}, keys + kPageTokens * stride, a.value_size,
                  {contexts[0] - base, contexts[1] - base}, mine - base, running);
    }
    __syncthreads();
  }
  finish_sums(running);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (first + g + 8 * h >= all) continue;
    __half* out = a.out + int64_t{rows[h]} * a.stride + heads[h] * a.value_size;
    const float inverse = 1 / running.sums[h];
#pragma unroll
    for (int n = 0; n < kSteps * 8; ++n) {
      if (8 * n >= a.value_size) break;
      *reinterpret_cast<__half2*>(out + 8 * n + 2 * t) =
          __floats2half2_rn(running.out[n][2 * h] * inverse, running.out[n][2 * h + 1] * inverse);
    }
  }
}

__global__ void rotations_kernel(const int32_t* positions, const float* frequencies, int pairs, float magnitude,
                                 float2* turns) {
  start_next();
  wait_for_input();
  for (int p = threadIdx.x; p < pairs; p += blockDim.x) {
    // In double: a float angle of a late position is off by more than a hundredth.
    double sine, cosine;
    sincos(static_cast<double>(frequencies[p]) * positions[blockIdx.x], &sine, &cosine);
    turns[int64_t{blockIdx.x} * pairs + p] =
        make_float2(static_cast<float>(cosine) * magnitude, static_cast<float>(sine) * magnitude);
  }
}

__global__ void copy_kernel(const __half* from, __half* to, int tokens, int key_size, int value_size) {
  wait_for_input();
  const int64_t block = int64_t{blockIdx.x} * kPageTokens * (key_size + value_size);
  for (int i = threadIdx.x; i < tokens * key_size; i += blockDim.x) to[block + i] = from[block + i];
  for (int i = threadIdx.x; i < tokens * value_size; i += blockDim.x) {
    const int64_t at = block + kPageTokens * (key_size + i / tokens) + i % tokens;
    to[at] = from[at];
  }
}

template <class Function>
void with_steps(const AttentionArguments& a, Function&& f) {
  const int size = std::max(a.key_size, a.value_size);
  if (size <= 64) return f(std::integral_constant<int, 1>());
  if (size <= 128) return f(std::integral_constant<int, 2>());
  return f(std::integral_constant<int, 4>());
}

}  // namespace

int64_t partial_floats(int32_t heads, int32_t value_size) {
  return int64_t{heads} * (2 + value_size);
}

void rotations(Stream& stream, const int32_t* positions, const float* frequencies, int32_t pairs, float magnitude,
               int32_t rows, float2* turns) {
  launch(stream, rotations_kernel, static_cast<unsigned>(rows), 128, 0, positions, frequencies, pairs, magnitude,
         turns);
}

void write_rows(Stream& stream, const AttentionArguments& a) {
  const int units = a.heads + 2 * a.kv_heads;
  const dim3 grid(static_cast<unsigned>((units + kWarps - 1) / kWarps), static_cast<unsigned>(a.rows));
  launch(stream, write_kernel, grid, kWarps * 32, 0, a);
}

void attend_rows(Stream& stream, const AttentionArguments& a, int32_t blocks) {
  const auto bytes = static_cast<int>(sizeof(float)) * kWarps * kQueries * (2 + a.value_size);
  with_steps(a, [&](auto steps) {
    if (bytes > 32 << 10) {  // beside what the kernel declares, more than a block gets unasked
      stream.check(cudaFuncSetAttribute(rows_kernel<steps()>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    }
    launch(stream, rows_kernel<steps()>, static_cast<unsigned>(blocks), kWarps * 32, static_cast<size_t>(bytes), a);
  });
}

void attend_tiles(Stream& stream, const AttentionArguments& a, int32_t tiles) {
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(a.kv_heads));
  const int keys = (a.key_size + 63) / 64 * 64;
  const auto bytes = 2 * kPageTokens * (keys + a.value_size) * static_cast<int>(sizeof(__half));
  with_steps(a, [&](auto steps) {
    if (bytes > 48 << 10) {
      stream.check(cudaFuncSetAttribute(tiles_kernel<steps()>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    }
    launch(stream, tiles_kernel<steps()>, grid, kWarps * 32, static_cast<size_t>(bytes), a);
  });
}

void copy_page(Stream& stream, const __half* from, __half* to, int32_t tokens, int32_t key_size, int32_t value_size,
               int32_t blocks) {
  launch(stream, copy_kernel, static_cast<unsigned>(blocks), 256, 0, from, to, tokens, key_size, value_size);
}

}  // namespace martlet::cuda
