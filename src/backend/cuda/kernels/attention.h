#pragma once

// Attention over the paged cache. A page holds kPageTokens tokens, layer after layer and head after head: cached.h says
// how. Rows that each ask once (decode) share out spans of kSpanTokens tokens; rows of one sequence (prefill) share
// keys.

#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/kernels/cached.h"
#include "backend/cuda/kernels/stream.h"

namespace martlet::cuda {

inline constexpr int32_t kSpanTokens = 256;
inline constexpr int32_t kTileQueries = 64;  // of the kernel that shares keys
inline constexpr int32_t kMaxHeadSize = 256;
inline constexpr int32_t kMergeRows = 256;    // rows that attend_rows() handles at most
inline constexpr int32_t kRowQueries = 8;     // query heads that a block of it handles
inline constexpr int32_t kMergeUnits = 1024;  // key heads times blocks of their query heads, at most

// Rows of the step, on the device.
struct StepRows {
  const int32_t* positions;  // of each row
  const int32_t* row_pages;  // where the row's sequence starts in `pages`; -1: the row is padding
  const int32_t* pages;
  const int32_t* row_spans;   // rows + 1: first span of each row that attend_rows() handles
  const int32_t* span_rows;   // the row of each span
  const int32_t* span_range;  // the first span that a launch of attend_rows() handles, and how many
};

// Rows of one sequence that share keys: queries first_query .. of rows first_row .. first_row + rows.
struct QueryTile {
  int32_t first_row, rows, first_query;
};

struct AttentionArguments {
  StepRows step;
  int32_t rows = 0;
  int32_t heads = 0, kv_heads = 0, key_size = 0, value_size = 0;
  float scale = 1;
  const float* qkv = nullptr;     // [row][q heads | k heads | v heads]
  const float* q_norm = nullptr;  // of one head, or null
  const float* k_norm = nullptr;
  float q_epsilon = 0, k_epsilon = 0;
  const float2* turns = nullptr;  // [row][pair] cosine and sine, or null
  int32_t pairs = 0;
  bool interleaved = false;
  __half* queries = nullptr;  // [row][head][key_size], scaled by log2(e) too
  CacheType type = CacheType::f16;
  std::byte* cache = nullptr;  // of this layer in page 0
  int64_t page_bytes = 0;      // from page to page
  __half* out = nullptr;       // [row][stride]
  int32_t stride = 0;
  bool keys_apart = false;       // write_rows() writes keys and values of all rows, and nothing else
  float* partials = nullptr;     // [span of the range][partial_floats()]
  unsigned* finished = nullptr;  // [kMergeRows][kMergeUnits], zeros
  const QueryTile* tiles = nullptr;
};

// Cosines and sines of every row's position.
void rotations(Stream& stream, const int32_t* positions, const float* frequencies, int32_t pairs, float magnitude,
               int32_t rows, float2* turns);
// Of rows that attend_tiles() handles: queries normed, turned and scaled; keys and values into the cache. With
// keys_apart only the latter, of all rows.
void write_rows(Stream& stream, const AttentionArguments& arguments);
// All of the above, unless keys_apart, and the attention of rows that have spans in the range, at most kMergeRows
// rows in a row. `blocks`: how many run at once.
void attend_rows(Stream& stream, const AttentionArguments& arguments, int32_t blocks);
void attend_tiles(Stream& stream, const AttentionArguments& arguments, int32_t tiles);

// What a span leaves of its heads: values [head][value_size], then the largest score and the sum [head].
constexpr int64_t partial_floats(int32_t heads, int32_t value_size) {
  return int64_t{heads} * value_size + (2 * heads + 3) / 4 * 4;
}

}  // namespace martlet::cuda
