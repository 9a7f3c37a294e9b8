// Decoding: one row of many sequences, its context split into spans over the multiprocessors.

#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/write_heads.cuh"

namespace martlet::cuda {
namespace {

// Keys of a page where they are cached: [token][key_size].
struct CachedKeys {
  const __half* keys;
  int size;
  __device__ void load(int token, int first, uint32_t* out) const {
    load_half_row(keys + token * size, size, first, out);
  }
};

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

// One span of one row for up to 16 query heads of a key head: the block's warps share its pages. All that it reads when
// it is made was there before the step began.
template <int kSteps>
struct RowUnit {
  static constexpr int kPages = kSpanTokens / kPageTokens / kWarps;  // of a warp
  const AttentionArguments& a;
  int span, row, unit, kv_head, first_head, heads, in_row, spans, tokens, position;
  int64_t pages[kPages];  // of the warp

  __device__ RowUnit(const AttentionArguments& a, int item) : a(a) { move_to(item); }

  __device__ void move_to(int item) {
    const int group = a.heads / a.kv_heads, head_tiles = (group + kQueries - 1) / kQueries;
    const int units = a.kv_heads * head_tiles;
    span = item / units;
    unit = item % units;
    row = a.step.span_rows[span];
    kv_head = unit / head_tiles;
    first_head = kv_head * group + unit % head_tiles * kQueries;
    heads = min(kQueries, (kv_head + 1) * group - first_head);
    in_row = span - a.step.row_spans[row];
    spans = a.step.row_spans[row + 1] - a.step.row_spans[row];
    position = a.step.positions[row];
    tokens = min(kSpanTokens, position + 1 - in_row * kSpanTokens);
    const int32_t* table = a.step.pages + a.step.row_pages[row] + in_row * (kSpanTokens / kPageTokens);
#pragma unroll
    for (int p = 0; p < kPages; ++p) {
      const int at = threadIdx.x / 32 + p * kWarps;
      pages[p] = at * kPageTokens < tokens ? table[at] : 0;
    }
  }

  // The keys of the warp's page p of the head; its values follow.
  __device__ const __half* page(int p) const {
    return a.cache + pages[p] * a.page_halves + int64_t{kv_head} * kPageTokens * (a.key_size + a.value_size);
  }

  // Asks for the span's keys and values, while what the queries are made of is still being computed.
  __device__ void fetch() const {
    const int lines = kPageTokens * (a.key_size + a.value_size) / 64;  // of 128 bytes
#pragma unroll
    for (int p = 0; p < kPages; ++p) {
      if ((threadIdx.x / 32 + p * kWarps) * kPageTokens >= tokens) break;
      for (int i = threadIdx.x % 32; i < lines; i += 32)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(page(p) + i * 64));
    }
  }

  // The heads' queries into shared memory, and, with the last span, the row's own keys and values into the cache.
  __device__ void prepare(__half* queries, float* scratch) const {
    if (unit == 0 && in_row == 0) clear_padding(a, row);
    scratch += threadIdx.x / 32 * kMaxHeadSize;
    const int work = heads + (in_row + 1 == spans ? 2 : 0);
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
    Running<kSteps> running;
#pragma unroll
    for (int p = 0; p < kPages; ++p) {
      const int limit = min(kPageTokens, tokens - (warp + p * kWarps) * kPageTokens);
      if (limit <= 0) break;
      attend_page(q, CachedKeys{page(p), a.key_size}, page(p) + kPageTokens * a.key_size, a.value_size, {limit, limit},
                  limit, running);
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
      if (spans == 1) {
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
      const float value = merged(partial(a.step.row_spans[row], head), from, spans, d, largest, sum);
      out(head)[d] = __float2half_rn(value / sum);
    }
  }

  // Whether this block is the last of the row's spans to get here.
  __device__ bool last_to_finish(bool* shared) const {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned* count = a.finished + row * kMergeUnits + unit;
      *shared = atomicAdd(count, 1) == static_cast<unsigned>(spans) - 1;
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
  if (static_cast<int>(blockIdx.x) >= items) return wait_for_input();
  RowUnit<kSteps> unit(a, blockIdx.x);
  unit.fetch();
  wait_for_input();
  for (int item = blockIdx.x;;) {
    unit.prepare(queries, scratch);
    __syncthreads();
    unit.attend(queries, shared);
    __syncthreads();
    unit.merge_warps(shared);
    if (unit.spans > 1 && unit.last_to_finish(&last)) unit.merge_spans();
    __syncthreads();
    item += gridDim.x;
    if (item >= items) return;
    unit.move_to(item);
  }
}

}  // namespace

int64_t partial_floats(int32_t heads, int32_t value_size) {
  return int64_t{heads} * (2 + value_size);
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

}  // namespace martlet::cuda
