#pragma once

// Decoding: one row of many sequences, its context split into spans over the multiprocessors. Instantiated by
// attention_*.cu for each type of cache.

#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/write_heads.cuh"

namespace martlet::cuda {
namespace {

constexpr int kRowWarps = kSpanTokens / kPageTokens;  // of a block: a page each
constexpr int kRowThreads = kRowWarps * 32;

// Rows of 8 x 8 halves become columns.
__device__ inline uint32_t transposed(uint32_t halves) {
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(halves));
  return halves;
}

// What a warp finds of one page for up to eight queries. Lane 4g + t: queries 2t and 2t + 1; of tile d of the values,
// 16d + g and 16d + g + 8 of the former, then of the latter.
template <int kSteps>
struct PageResult {
  float out[kSteps * 4][4] = {};
  float largest[2], sums[2];
};

// Eight tiles of values on their way, sixteen values of all tokens each: the lane's of tokens 8t .. 8t + 7.
template <class Type>
struct ValueTiles {
  static constexpr int kTiles = 8, kTilesOfBlock = kBlock<Type> == 0 ? kTiles : kBlock<Type> / 16;
  typename Type::Eight low[kTiles], high[kTiles];
  uint4 scales[kTiles / kTilesOfBlock];

  // From tile `first` on.
  __device__ ValueTiles(const CachedHead<Type>& head, int first, int g, int t) {
#pragma unroll
    for (int d = 0; d < kTiles; ++d) {
      const int value = 16 * (first + d);
      if (value >= head.value_size) break;
      low[d] = head.load_value(value + g, 8 * t), high[d] = head.load_value(value + g + 8, 8 * t);
      if (d % kTilesOfBlock == 0) scales[d / kTilesOfBlock] = head.load_value_scales(value, 8 * t);
    }
  }
  // Tile d as halves. `valid` tokens of the page count.
  __device__ void halves(int d, int valid, uint4& of_low, uint4& of_high) const {
    of_low = Type::halves(low[d], scales[d / kTilesOfBlock]),
    of_high = Type::halves(high[d], scales[d / kTilesOfBlock]);
    if (valid == kPageTokens) return;
    const uint4 kept = kept_tokens(threadIdx.x % 4 * 8, valid);
    of_low.x &= kept.x, of_low.y &= kept.y, of_low.z &= kept.z, of_low.w &= kept.w;
    of_high.x &= kept.x, of_high.y &= kept.y, of_high.z &= kept.z, of_high.w &= kept.w;
  }
};

// `queries`: the lane's of query g. `valid`: tokens of the page. Rows of keys are the first operand here, and rows of
// values (a value of all tokens) too, so that eight queries need no padding.
template <int kSteps, class Type>
__device__ PageResult<kSteps> attend_one_page(const uint32_t (&queries)[kSteps][8], const CachedHead<Type>& head,
                                              int valid) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  PageResult<kSteps> result;
  // Of tokens 8 (g / 2) + g % 2 + 2i: so a lane has, once they are transposed, those of tokens 8t + 2i and 8t + 2i + 1.
  float scores[4][2];
#pragma unroll
  for (int a = 0; a < 2; ++a) {
    float c[4] = {};
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      uint32_t low[8], high[8];
      const int token = g / 2 * 8 + g % 2 + 4 * a;
      head.load_key(token, 64 * s + 16 * t, low);
      head.load_key(token + 2, 64 * s + 16 * t, high);
#pragma unroll
      for (int j = 0; j < 4; ++j)
        multiply_add(c, low[2 * j], high[2 * j], low[2 * j + 1], high[2 * j + 1], queries[s][2 * j],
                     queries[s][2 * j + 1]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
      scores[2 * a + i / 2][i % 2] = g / 2 * 8 + g % 2 + 4 * a + i / 2 * 2 < valid ? c[i] : -INFINITY;
  }
  ValueTiles<Type> tiles(head, 0, g, t);
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    float largest = fmaxf(fmaxf(scores[0][e], scores[1][e]), fmaxf(scores[2][e], scores[3][e]));
#pragma unroll
    for (int offset = 4; offset < 32; offset *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[i][e] = power_of_two(scores[i][e] - largest);
    float sum = (scores[0][e] + scores[1][e]) + (scores[2][e] + scores[3][e]);
#pragma unroll
    for (int offset = 4; offset < 32; offset *= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    result.largest[e] = largest;
    result.sums[e] = sum;
  }
  uint32_t p[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) p[i] = transposed(pack(scores[i][0], scores[i][1]));
#pragma unroll
  for (int first = 0; first < kSteps * 4; first += ValueTiles<Type>::kTiles) {
    if (16 * first >= head.value_size) break;
    if (first > 0) tiles = ValueTiles<Type>(head, first, g, t);
#pragma unroll
    for (int d = 0; d < ValueTiles<Type>::kTiles && first + d < kSteps * 4; ++d) {
      if (16 * (first + d) >= head.value_size) break;
      float(&out)[4] = result.out[first + d];
      uint4 low, high;
      tiles.halves(d, valid, low, high);
      multiply_add(out, low.x, high.x, low.y, high.y, p[0], p[1]);
      multiply_add(out, low.z, high.z, low.w, high.w, p[2], p[3]);
    }
  }
  return result;
}

// One span of one row for up to eight query heads of a key head: the block's warps share its pages. All that it reads
// when it is made was there before the step began.
template <class Type, int kSteps, bool kWhole>
struct RowUnit {
  using Sizes = HeadSizes<kSteps, kWhole>;
  const AttentionArguments& a;
  const Sizes sizes;
  int span, base, row, unit, kv_head, first_head, heads, in_row, spans, tokens;
  int page, own_page;  // the warp's, that of the row's own token

  __device__ RowUnit(const AttentionArguments& a, int item) : a(a), sizes(a) { move_to(item); }

  __device__ void move_to(int item) {
    const int group = a.heads / a.kv_heads, head_tiles = (group + kRowQueries - 1) / kRowQueries;
    const int units = a.kv_heads * head_tiles;
    base = a.step.span_range[0];
    span = base + item / units;
    unit = item % units;
    row = a.step.span_rows[span];
    kv_head = unit / head_tiles;
    first_head = kv_head * group + unit % head_tiles * kRowQueries;
    heads = min(kRowQueries, (kv_head + 1) * group - first_head);
    in_row = span - a.step.row_spans[row];
    spans = a.step.row_spans[row + 1] - a.step.row_spans[row];
    tokens = min(kSpanTokens, a.step.positions[row] + 1 - in_row * kSpanTokens);
    const int32_t* table = a.step.pages + a.step.row_pages[row] + in_row * (kSpanTokens / kPageTokens);
    const int warp = threadIdx.x / 32;
    page = warp < warps() ? table[warp] : 0;
    own_page = table[(tokens - 1) / kPageTokens];  // of the last span
  }

  // That have a page of the span.
  __device__ int warps() const { return (tokens + kPageTokens - 1) / kPageTokens; }

  __device__ CachedHead<Type> head_of(int page) const {
    return head_in<Type>(a, page, kv_head, sizes.keys, sizes.values);
  }
  __device__ CachedHead<Type> head() const { return head_of(page); }

  // Asks for the span's keys and values, while what the queries are made of is still being computed.
  __device__ void fetch() const {
    if (static_cast<int>(threadIdx.x) / 32 >= warps()) return;
    const CachedHead<Type> asked = head();
    const auto bytes = static_cast<int>(asked.bytes());
    for (int i = threadIdx.x % 32 * 128; i < bytes; i += 32 * 128)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(asked.data + i));
  }

  // The heads' queries into shared memory, and, with the last span, the row's own keys and values into the cache.
  __device__ void prepare(__half* queries, float* scratch) const {
    if (unit == 0 && in_row == 0) clear_padding(a, row);
    scratch += threadIdx.x / 32 * kMaxHeadSize;
    const int work = heads + (in_row + 1 == spans && !a.keys_apart ? 2 : 0);
    for (int i = threadIdx.x / 32; i < work; i += kRowWarps) {
      if (i < heads) {
        write_query<Sizes::kKnown>(a, row, first_head + i, scratch, queries + i * sizes.keys);
      } else if (i == heads) {
        write_key<Sizes::kKnown>(a, row, kv_head, scratch, head_of(own_page), (tokens - 1) % kPageTokens);
      } else {
        write_value<Sizes::kKnown>(a, row, kv_head, head_of(own_page), (tokens - 1) % kPageTokens);
      }
    }
  }

  __device__ void attend(const __half* queries, float* shared) const {
    if (static_cast<int>(threadIdx.x) / 32 >= warps()) return;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    uint32_t q[kSteps][8];
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
      load_half_row(queries + min(g, heads - 1) * sizes.keys, sizes.keys, 64 * s + 16 * t, q[s]);
    const auto result = attend_one_page(q, head(), min(kPageTokens, tokens - warp * kPageTokens));
    const int stride = 2 + sizes.values;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      if (2 * t + e >= heads) continue;
      float* at = shared + (warp * heads + 2 * t + e) * stride;
      if (g == 0) at[0] = result.largest[e], at[1] = result.sums[e];
#pragma unroll
      for (int d = 0; d < kSteps * 4; ++d) {
        if (16 * d >= sizes.values) break;
        at[2 + 16 * d + g] = result.out[d][e];
        at[2 + 16 * d + 8 + g] = result.out[d][2 + e];
      }
    }
  }

  __device__ __half* out(int head) const {
    return a.out + int64_t{row} * a.stride + (first_head + head) * sizes.values;
  }
  __device__ float* values_of(int of_span, int head) const {
    return a.partials + (of_span - base) * partial_floats(a.heads, sizes.values) + (first_head + head) * sizes.values;
  }
  __device__ float2* weight_of(int of_span, int head) const {
    float* weights = a.partials + (of_span - base) * partial_floats(a.heads, sizes.values) + a.heads * sizes.values;
    return reinterpret_cast<float2*>(weights) + first_head + head;
  }

  // The warps' results into one: the row's own when it has one span.
  __device__ void merge_warps(const float* shared) const {
    const int stride = 2 + sizes.values, pairs = sizes.values / 2;
    for (int i = threadIdx.x; i < heads * pairs; i += kRowThreads) {
      const int head = i / pairs, d = i % pairs * 2;
      float largest = -INFINITY, sum = 0;
      float2 value = {};
      for (int w = 0; w < warps(); ++w) largest = fmaxf(largest, shared[(w * heads + head) * stride]);
      for (int w = 0; w < warps(); ++w) {
        const float* at = shared + (w * heads + head) * stride;
        const float factor = power_of_two(at[0] - largest);
        const float2 part = *reinterpret_cast<const float2*>(at + 2 + d);
        sum += at[1] * factor;
        value.x += part.x * factor, value.y += part.y * factor;
      }
      if (spans == 1) {
        *reinterpret_cast<__half2*>(out(head) + d) = __floats2half2_rn(value.x / sum, value.y / sum);
      } else {
        if (d == 0) *weight_of(span, head) = make_float2(largest, sum);
        *reinterpret_cast<float2*>(values_of(span, head) + d) = value;
      }
    }
  }

  // The spans' results into one. `totals`: the largest score and the sum of each head, in shared memory.
  __device__ void merge_spans(float2* totals) const {
    const int first = a.step.row_spans[row], lane = threadIdx.x % 32;
    for (int head = threadIdx.x / 32; head < heads; head += kRowWarps) {
      float largest = -INFINITY, sum = 0;
      for (int s = lane; s < spans; s += 32) largest = fmaxf(largest, __ldcg(weight_of(first + s, head)).x);
      for (int offset = 16; offset > 0; offset /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
      for (int s = lane; s < spans; s += 32) {
        const float2 weight = __ldcg(weight_of(first + s, head));
        sum += weight.y * power_of_two(weight.x - largest);
      }
      for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
      if (lane == 0) totals[head] = make_float2(largest, sum);
    }
    __syncthreads();
    const int fours = sizes.values / 4;
    for (int i = threadIdx.x; i < heads * fours; i += kRowThreads) {
      const int head = i / fours, d = i % fours * 4;
      float4 value = {};
#pragma unroll 8
      for (int s = 0; s < spans; ++s) {
        const float factor = power_of_two(__ldcg(weight_of(first + s, head)).x - totals[head].x);
        const float4 part = __ldcg(reinterpret_cast<const float4*>(values_of(first + s, head) + d));
        value.x += part.x * factor, value.y += part.y * factor;
        value.z += part.z * factor, value.w += part.w * factor;
      }
      const float inverse = 1 / totals[head].y;
      __half2* to = reinterpret_cast<__half2*>(out(head) + d);
      to[0] = __floats2half2_rn(value.x * inverse, value.y * inverse);
      to[1] = __floats2half2_rn(value.z * inverse, value.w * inverse);
    }
  }

  // Whether this block is the last of the row's spans to get here.
  __device__ bool last_to_finish(bool* shared) const {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned* count = a.finished + row % kMergeRows * kMergeUnits + unit;
      *shared = atomicAdd(count, 1) == static_cast<unsigned>(spans) - 1;
      if (*shared) *count = 0;
      __threadfence();
    }
    __syncthreads();
    return *shared;
  }
};

template <class Type, int kSteps, bool kWhole>
__global__ void __launch_bounds__(kRowThreads, 2) rows_kernel(const __grid_constant__ AttentionArguments a) {
  extern __shared__ float shared[];
  __shared__ __align__(16) __half queries[kRowQueries * kMaxHeadSize];
  __shared__ float scratch[kRowWarps * kMaxHeadSize];
  __shared__ float2 totals[kRowQueries];
  __shared__ bool last;
  start_next();
  // What the step is was there before its first kernel.
  const int group = a.heads / a.kv_heads;
  const int items = a.step.span_range[1] * a.kv_heads * ((group + kRowQueries - 1) / kRowQueries);
  if (static_cast<int>(blockIdx.x) >= items) {
    if (blockIdx.x == 0) wait_for_input();  // or this kernel could end before the one before it
    return;
  }
  using Unit = RowUnit<Type, kSteps, kWhole>;
  Unit unit(a, blockIdx.x);
  unit.fetch();
  for (int item = blockIdx.x + gridDim.x; item < items; item += gridDim.x) Unit(a, item).fetch();
  wait_for_input();
  for (int item = blockIdx.x;;) {
    unit.prepare(queries, scratch);
    __syncthreads();
    unit.attend(queries, shared);
    __syncthreads();
    unit.merge_warps(shared);
    if (unit.spans > 1 && unit.last_to_finish(&last)) unit.merge_spans(totals);
    __syncthreads();
    item += gridDim.x;
    if (item >= items) return;
    unit.move_to(item);
  }
}

}  // namespace

template <class Type>
void attend_rows_of(Stream& stream, const AttentionArguments& a, int32_t blocks) {
  const int heads = std::min(a.heads / a.kv_heads, kRowQueries);
  const auto bytes = static_cast<int>(sizeof(float)) * kRowWarps * heads * (2 + a.value_size);
  const auto run = [&](auto kernel) {
    if (bytes > 32 << 10)  // beside what the kernel declares, more than a block gets unasked
      stream.check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    launch(stream, kernel, static_cast<unsigned>(blocks), kRowThreads, static_cast<size_t>(bytes), a);
  };
  with_steps(a, [&](auto steps) {
    const bool whole = a.key_size == 64 * steps() && a.value_size == 64 * steps();
    whole ? run(rows_kernel<Type, steps(), true>) : run(rows_kernel<Type, steps(), false>);
  });
}

}  // namespace martlet::cuda
