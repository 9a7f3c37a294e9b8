#pragma once

// Attention over the paged cache. The keys of a sequence are cut into spans at fixed positions; each query meets each
// span on its own, and spans are merged in ascending order. So a row's result depends on its position and its pages
// alone: it has the same bits alone, in a prefill chunk, in any batch and on any number of threads.

#include <vector>

#include "backend/backend.h"
#include "backend/cpu/isa/level.h"
#include "backend/cpu/kernels/attention.h"
#include "backend/cpu/kernels/vectors.h"
#include "backend/cpu/paged_cache.h"
#include "backend/cpu/rotation.h"

namespace martlet::cpu {

inline constexpr int32_t kSpanTokens = 256;
// Queries that share a page of keys: rows of a tile times query heads of one key head.
inline constexpr int64_t kTileQueries = 64;

// One attention operator of one step; everything is borrowed.
struct AttentionStep {
  const Attention& attention;
  const Batch& batch;
  std::span<const int32_t> row_sequences;
  const PagedCache& cache;
  const PageTable& table;
  const Level& level;
  const Rotation* rotation;      // null: no RoPE
  const float *q_norm, *k_norm;  // weights of one head, or null
  const float* qkv;              // [row][q heads | k heads | v heads]
  float* queries;                // [key head][row][query head of it][key_size]: normed, turned and scaled
  float* out;                    // [row][head][value_size]

  int64_t rows() const { return batch.rows(); }
  const CacheKernels& kernels() const { return level.attention->cached[static_cast<size_t>(cache.group().type)]; }
  int64_t group() const { return attention.heads / attention.kv_heads; }  // query heads of one key head
  Page page(int32_t sequence, int32_t position) const {
    return table.pages[static_cast<size_t>(table.starts[static_cast<size_t>(sequence)] + position / kPageTokens)];
  }
};

// Consecutive rows of one sequence, few enough that their queries make one tile.
struct RowTile {
  int32_t sequence, first_row, rows;
  int32_t spans;  // up to the last row's own position
};
std::vector<RowTile> row_tiles(const AttentionStep& step);
// First row of the tile that sees at least `tokens` tokens of the span; positions ascend inside a sequence.
int64_t first_seeing(const AttentionStep& step, const RowTile& tile, int32_t span, int32_t tokens);

// Work that shares keys: the rows of a tile with query heads of one key head.
struct AttentionItem {
  RowTile tile;
  int64_t key_head, first_query_head, query_heads;  // the latter two inside the key head's group
  int64_t queries() const { return tile.rows * query_heads; }
};
std::vector<AttentionItem> attention_items(const AttentionStep& step);

// State of an item's queries over the spans seen so far: [query] and [query][value_size], not divided by the sums yet.
struct Partial {
  Softmax* states;
  float* out;

  static int64_t bytes(int64_t value_size);
  static Partial at(std::byte* memory, int64_t value_size);
};

// What one thread works in.
int64_t attention_scratch_bytes(int64_t key_size, int64_t value_size);

// Queries of `row` into step.queries, its key and value into the cache.
void write_row(const AttentionStep& step, int64_t row, std::byte* scratch);
// Fills `result` for the rows of the item that see any of the span; returns the first such row of the tile. Those
// before it are left alone.
int64_t attend_span(const AttentionStep& step, const AttentionItem& item, int32_t span, const Partial& result,
                    std::byte* scratch);
// Takes `next`, valid from `first_row` of the tile, into `sum`, which covers all spans before it.
void merge_span(const AttentionStep& step, const AttentionItem& item, int64_t first_row, const Partial& next,
                const Partial& sum);
// All spans one after the other.
void attend_all(const AttentionStep& step, const AttentionItem& item, std::byte* scratch);
// Divides and writes the item's rows of step.out.
void finish_item(const AttentionStep& step, const AttentionItem& item, const Partial& sum);

}  // namespace martlet::cpu
