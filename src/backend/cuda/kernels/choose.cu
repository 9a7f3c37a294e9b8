#include "backend/cuda/kernels/choose.h"

#include "backend/cuda/kernels/launch.cuh"

namespace martlet::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBestChunks = 32;
constexpr int kLanes = 4;  // of the sum over a block: see backend/exponential.h
constexpr int kBlockLoads = kWeightBlock / kLanes;
constexpr int kGroup = kWeightBlock * kBlocksOfGroup;
static_assert(kThreads == kBlocksOfGroup * kLanes && kMostExcerptColumns == kThreads * kGroup);
constexpr int kBins = 2048;         // the last one has all that is further away
constexpr float kUnits = 1u << 19;  // of mass in a weight of 1: those of a group fit 32 bits
constexpr int kBinsAThread = kBins / kThreads;

// One chunk's best token of a row.
struct BestPart {
  float value;
  int32_t token, invalid;
};

// Scratch of one row.
struct Row {
  unsigned best_chunks, groups, collected_groups;  // that are done
  float largest;
  Best best;
  BestPart parts[kBestChunks];
  int32_t bound;      // the last bin whose logits are candidates; -1: too far
  unsigned appended;  // candidates
  unsigned long long bins[kBins];
  double sums[kThreads];  // of groups
};

__device__ inline BestPart better(BestPart a, BestPart b) {
  const bool first = a.value > b.value || (a.value == b.value && a.token < b.token);
  BestPart out = first ? a : b;
  out.invalid = a.invalid | b.invalid;
  return out;
}

// The best of the block's threads, valid in thread 0.
__device__ BestPart best_of_block(BestPart mine) {
  __shared__ BestPart parts[32];
  for (int offset = 16; offset > 0; offset /= 2) {
    const BestPart other = {__shfl_xor_sync(~0u, mine.value, offset), __shfl_xor_sync(~0u, mine.token, offset),
                            __shfl_xor_sync(~0u, mine.invalid, offset)};
    mine = better(mine, other);
  }
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (unsigned w = 1; w < blockDim.x / 32; ++w) mine = better(mine, parts[w]);
  }
  return mine;
}

// Blocks of a row look at a chunk each; the last to finish takes the best of all.
__global__ void best_kernel(const float* logits, int columns, Row* rows, Best* best) {
  start_next();
  wait_for_input();
  Row& row = rows[blockIdx.y];
  logits += int64_t{blockIdx.y} * columns;
  BestPart mine = {-INFINITY, 0x7fffffff, 0};
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < columns; i += kThreads * kBestChunks) {
    const float x = logits[i];
    if (x > mine.value) {
      mine.value = x;
      mine.token = i;
    }
    mine.invalid |= !(x < INFINITY);
  }
  mine = best_of_block(mine);
  if (threadIdx.x != 0) return;
  row.parts[blockIdx.x] = mine;
  __threadfence();
  if (atomicAdd(&row.best_chunks, 1) != kBestChunks - 1) return;
  row.best_chunks = 0;
  __threadfence();
  for (int c = 0; c < kBestChunks; ++c) {
    const volatile BestPart* part = row.parts + c;
    mine = better(mine, {part->value, part->token, part->invalid});
  }
  row.largest = mine.value;
  row.best = best[blockIdx.y] = {mine.token, mine.invalid | (mine.value == -INFINITY)};
}

// exp(x) for x <= 0: the operations of backend/exponential.h, none of them fused.
__device__ inline float exponential(float x) {
  if (x < -87.0f) return 0;
  constexpr float kRounder = 0x1.8p23f;
  const float n = __fsub_rn(__fadd_rn(__fmul_rn(x, 1.44269504f), kRounder), kRounder);
  const float r = __fadd_rn(__fsub_rn(x, __fmul_rn(n, 0.693359375f)), __fmul_rn(n, 2.12194440e-4f));
  float p = 1.0f / 720;
  p = __fadd_rn(__fmul_rn(p, r), 1.0f / 120);
  p = __fadd_rn(__fmul_rn(p, r), 1.0f / 24);
  p = __fadd_rn(__fmul_rn(p, r), 1.0f / 6);
  p = __fadd_rn(__fmul_rn(p, r), 0.5f);
  p = __fadd_rn(__fmul_rn(p, r), 1.0f);
  p = __fadd_rn(__fmul_rn(p, r), 1.0f);
  return __fmul_rn(p, __int_as_float((static_cast<int>(n) + 127) << 23));
}

// Bins ascend while logits descend.
__device__ inline int bin_of(float logit, float largest, float bins) {
  return static_cast<int>(fminf((largest - logit) * bins, kBins - 1));
}

// Whether this block is the last one of its row to come here, known to all its threads. What others wrote before they
// came is then seen by reads that pass the first-level cache.
__device__ bool comes_last(unsigned& done, unsigned blocks) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(&done, 1) == blocks - 1;
    if (last) done = 0;
    __threadfence();
  }
  __syncthreads();
  return last;
}

// Weights of the blocks of a group, into `weights`: four threads a block, a lane each. Where bins are counted, `bins`
// gets each logit's mass or a one.
__device__ void weigh_group(const float* logits, int columns, int group, const Wish& wish, float largest,
                            double* weights, unsigned* bins) {
  const int lane = threadIdx.x % kLanes, block = threadIdx.x / kLanes;
  const int first = group * kGroup + block * kWeightBlock + lane;
  float values[kBlockLoads], sum = 0;
#pragma unroll
  for (int i = 0; i < kBlockLoads; ++i) {
    const int at = first + kLanes * i;
    values[i] = at < columns ? logits[at] : -INFINITY;
  }
#pragma unroll
  for (const float logit : values) {
    const float weight = exponential(__fmul_rn(__fsub_rn(logit, largest), wish.inverse_temperature));
    sum = __fadd_rn(sum, weight);
    if (!bins) continue;
    const unsigned amount = wish.until == Wish::Until::count ? 1 : static_cast<unsigned>(weight * kUnits);
    const int bin = bin_of(logit, largest, wish.bins);
    if (amount != 0 && bin < kBins - 1) atomicAdd(bins + bin, amount);
  }
  double out = 0;
  for (int l = 0; l < kLanes; ++l) out += __shfl_sync(~0u, sum, l, kLanes);
  if (lane == 0) weights[block] = out;
}

// Index of the weight that `left` of them all falls on, and takes off what stands before it.
__device__ int fall(const double* weights, int count, double& left) {
  int i = 0;
  for (; i + 1 < count && left >= weights[i]; ++i) left -= weights[i];
  return i;
}

// The sum of `value` over the threads before this one.
__device__ unsigned long long sum_before(unsigned long long value) {
  __shared__ unsigned long long sums[kThreads / 32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned long long through = value;
  for (unsigned offset = 1; offset < 32; offset *= 2) {
    const unsigned long long other = __shfl_up_sync(~0u, through, offset);
    if (lane >= offset) through += other;
  }
  if (lane == 31) sums[warp] = through;
  __syncthreads();
  for (unsigned w = 0; w < warp; ++w) through += sums[w];
  return through - value;
}

// The first bin at whose end there is `wanted`; the last one where there is less. Bins become zeros.
__device__ int bin_with(unsigned long long* bins, double wanted) {
  __shared__ int found;
  unsigned long long mine[kBinsAThread], sum = 0;
#pragma unroll
  for (int i = 0; i < kBinsAThread; ++i) {
    unsigned long long* bin = bins + threadIdx.x * kBinsAThread + i;
    sum += mine[i] = __ldcg(bin);
    *bin = 0;
  }
  if (threadIdx.x == 0) found = kBins - 1;
  unsigned long long through = sum_before(sum);
#pragma unroll
  for (int i = 0; i < kBinsAThread; ++i) {
    through += mine[i];
    if (static_cast<double>(through) >= wanted) atomicMin(&found, static_cast<int>(threadIdx.x) * kBinsAThread + i);
  }
  __syncthreads();
  return found;
}

// The last bin of what is wished for.
__device__ int last_bin(const Wish& wish, float largest, double total, unsigned long long* bins) {
  switch (wish.until) {
    case Wish::Until::count:
      return bin_with(bins, wish.amount);
    case Wish::Until::mass:
      return bin_with(bins, wish.amount * total * kUnits);
    default:
      return bin_of(static_cast<float>(largest - wish.amount), largest, wish.bins);
  }
}

// The block that the draw falls into. `sums`: of all groups; `weights`: room for those of a group's blocks.
__device__ void find_block(const float* logits, int columns, const Wish& wish, float largest, double total,
                           const double* sums, double* weights, Excerpt& out) {
  __shared__ int group, first;
  __shared__ double left;
  if (threadIdx.x == 0) {
    left = __dmul_rn(wish.random, total);
    group = fall(sums, static_cast<int>(gridDim.x), left);
  }
  __syncthreads();
  weigh_group(logits, columns, group, wish, largest, weights, nullptr);
  __syncthreads();
  if (threadIdx.x == 0) {
    const int blocks = (columns - group * kGroup + kWeightBlock - 1) / kWeightBlock;
    const int block = fall(weights, min(blocks, kBlocksOfGroup), left);
    first = group * kGroup + block * kWeightBlock;
    out.first = first;
    out.left = left;
  }
  __syncthreads();
  if (threadIdx.x >= kWeightBlock) return;
  const int at = first + static_cast<int>(threadIdx.x);
  out.block[threadIdx.x] = at < columns ? logits[at] : -INFINITY;
}

// A block for each group of each row; the row's last one says what the whole row has, and finds the block to draw from
// or how far candidates reach.
__global__ void survey_kernel(const float* logits, int columns, Row* rows, const Wish* wishes, Excerpt* excerpts) {
  start_next();
  wait_for_input();
  __shared__ double weights[kThreads];
  __shared__ unsigned bins[kBins];
  const Wish wish = wishes[blockIdx.y];
  Row& row = rows[wish.row];
  const float largest = row.largest;
  logits += int64_t{wish.row} * columns;
  const bool counts = wish.until == Wish::Until::count || wish.until == Wish::Until::mass;
  for (int b = threadIdx.x; b < kBins; b += kThreads) bins[b] = 0;
  __syncthreads();
  weigh_group(logits, columns, static_cast<int>(blockIdx.x), wish, largest, weights, counts ? bins : nullptr);
  __syncthreads();
  if (threadIdx.x == 0) {
    double sum = 0;
    for (int b = 0; b < kBlocksOfGroup; ++b) sum += weights[b];
    row.sums[blockIdx.x] = sum;
  }
  for (int b = threadIdx.x; counts && b < kBins; b += kThreads) {
    if (bins[b] != 0) atomicAdd(row.bins + b, bins[b]);
  }
  if (!comes_last(row.groups, gridDim.x)) return;
  __shared__ double sums[kThreads], total;
  if (threadIdx.x < gridDim.x) sums[threadIdx.x] = __ldcg(row.sums + threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 0) {
    total = 0;
    for (unsigned g = 0; g < gridDim.x; ++g) total += sums[g];
  }
  __syncthreads();
  Excerpt& out = excerpts[blockIdx.y];
  int bound = -1;
  if (wish.until == Wish::Until::nothing) {
    find_block(logits, columns, wish, largest, total, sums, weights, out);
  } else {
    bound = last_bin(wish, largest, total, row.bins);
    if (bound == kBins - 1) bound = -1;
  }
  if (threadIdx.x != 0) return;
  row.bound = bound;
  out.largest = largest;
  out.best = row.best.token;
  out.total = total;
  out.count = -1;
}

// A block for each group of each row: candidates, in the order in which they are found.
__global__ void collect_kernel(const float* logits, int columns, Row* rows, const Wish* wishes, Excerpt* excerpts) {
  start_next();
  wait_for_input();
  const Wish wish = wishes[blockIdx.y];
  Row& row = rows[wish.row];
  const int bound = row.bound;
  if (bound < 0) return;
  Excerpt& out = excerpts[blockIdx.y];
  const float largest = row.largest;
  const int first = static_cast<int>(blockIdx.x) * kGroup, lane = threadIdx.x % 32;
  logits += int64_t{wish.row} * columns;
  for (int i = threadIdx.x; i < kGroup; i += kThreads) {
    const float logit = first + i < columns ? logits[first + i] : -INFINITY;
    const bool found = bin_of(logit, largest, wish.bins) <= bound;
    const unsigned all = __ballot_sync(~0u, found);
    if (all == 0) continue;
    unsigned at = 0;
    if (lane == 0) at = atomicAdd(&row.appended, __popc(all));
    at = __shfl_sync(~0u, at, 0) + __popc(all & ((1u << lane) - 1));
    if (found && at < kMostCandidates) out.candidates[at] = {first + i, logit};
  }
  if (!comes_last(row.collected_groups, gridDim.x) || threadIdx.x != 0) return;
  out.count = static_cast<int>(__ldcg(&row.appended));
  row.appended = 0;
}

}  // namespace

int64_t choice_scratch_bytes() {
  return kChosenRows * static_cast<int64_t>(sizeof(Row));
}

void best_token(Stream& stream, const float* logits, int32_t rows, int32_t columns, void* scratch, Best* best) {
  launch(stream, best_kernel, dim3(kBestChunks, static_cast<unsigned>(rows)), kThreads, 0, logits, columns,
         static_cast<Row*>(scratch), best);
}

void make_excerpts(Stream& stream, const float* logits, int32_t columns, void* scratch, const Wish* wishes,
                   int32_t count, bool candidates, Excerpt* excerpts) {
  const dim3 grid(static_cast<unsigned>((columns + kGroup - 1) / kGroup), static_cast<unsigned>(count));
  auto* rows = static_cast<Row*>(scratch);
  launch(stream, survey_kernel, grid, kThreads, 0, logits, columns, rows, wishes, excerpts);
  if (candidates) launch(stream, collect_kernel, grid, kThreads, 0, logits, columns, rows, wishes, excerpts);
}

}  // namespace martlet::cuda
