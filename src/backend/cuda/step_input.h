#pragma once

// What a step's kernels read of the batch, on the device at addresses that stay: captured graphs keep them.

#include <vector>

#include "backend/batch.h"
#include "backend/cuda/device.h"
#include "backend/cuda/kernels/attention.h"

namespace martlet::cuda {

class StepInput {
 public:
  // For steps of `rows` rows at most whose sequences list `pages` pages at most, and spans of attention to match.
  // Graphs made before are void when this returns true.
  Result<bool> reserve(int32_t rows, int64_t pages);
  // For steps whose rows all become spans, of sequences of `context` tokens at most. Grows by itself beyond.
  Status reserve_alone(int32_t rows, int32_t context);
  // Bytes of the device that both take, and spans that the first is for.
  static int64_t device_bytes(int32_t rows, int64_t pages);
  static int64_t alone_bytes(int32_t rows, int32_t context);
  static int64_t spans_of(int32_t rows, int64_t pages);
  int64_t taken() const { return device_.taken() + alone_device_.taken(); }

  // Lays out the batch, padded to `padded_rows` rows that no sequence owns. `tokens` are those of the batch, resolved.
  // Rows of sequences that have one row, the first kMergeRows of them, become spans; all others are left for tiles.
  // `alone`: all rows become spans, for steps that no graph serves.
  void fill(const Batch& batch, std::span<const Token> tokens, int32_t padded_rows, bool alone);
  Status send(cudaStream_t stream);
  // Cuts the rows that are left into tiles, for `queries_a_row` query heads of each key head, and sends them.
  Status send_tiles(int32_t queries_a_row, cudaStream_t stream);

  // Of the spans, those of range 0 .. ranges() - 1.
  StepRows rows(int32_t range = 0) const;
  int32_t ranges() const { return !alone_.empty() ? ranges_ : spans_ > 0 ? 1 : 0; }
  const int32_t* tokens() const { return device(tokens_); }
  const int32_t* outputs() const { return device(outputs_); }
  const QueryTile* tiles() const { return reinterpret_cast<const QueryTile*>(device(tiles_)); }
  bool shares_keys() const { return !shared_keys_.empty(); }  // there are rows left for tiles
  int64_t max_spans() const { return span_rows_.size; }
  int32_t tile_count() const { return tile_count_; }

  // Pages that the sequences of a batch list.
  static int64_t pages_of(const Batch& batch);

 private:
  struct Part {
    int64_t first = 0, size = 0;  // numbers
  };
  void lay_out(int32_t rows, int64_t pages);
  Part part(int64_t size);
  int32_t* host(const Part& part) const { return host_.as<int32_t>() + part.first; }
  const int32_t* device(const Part& part) const { return device_.as<int32_t>() + part.first; }
  Status send(const Part& part, int64_t count, cudaStream_t stream) const;
  void fill_alone(const Batch& batch);
  Status send_alone(cudaStream_t stream);

  Memory host_, device_;
  int64_t size_ = 0;
  Part tokens_, positions_, row_pages_, outputs_, row_spans_, span_range_, tiles_, span_rows_, pages_;
  struct Sequence {
    int32_t first_row, rows;
  };
  std::vector<Sequence> shared_keys_;  // whose rows become tiles
  int32_t queries_a_row_ = 0;          // that the tiles are for; 0: not cut yet
  int32_t spans_ = 0, tile_count_ = 0, page_count_ = 0;
  // Where all rows have spans: row_spans of rows + 1, then the ranges' first spans and numbers, then span_rows. Its own
  // memory, which may move: no graph reads it.
  std::vector<int32_t> alone_;
  Memory alone_device_;
  int32_t alone_rows_ = 0, ranges_ = 0;
};

}  // namespace martlet::cuda
