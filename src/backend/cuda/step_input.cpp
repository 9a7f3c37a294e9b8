#include "backend/cuda/step_input.h"

#include <algorithm>
#include <cassert>

namespace martlet::cuda {
namespace {

constexpr int64_t kPagesOfSpan = kSpanTokens / kPageTokens;
constexpr int32_t kMaxQueriesARow = 64;
constexpr int64_t kOneCopyBytes = 128 << 10;
constexpr int64_t kNumberBytes = sizeof(int32_t);

int64_t round_up(int64_t numbers) {
  return (numbers + 3) / 4 * 4;
}

}  // namespace

StepInput::Part StepInput::part(int64_t size) {
  size = round_up(size);
  const Part out = {size_, size};
  size_ += size;
  return out;
}

void StepInput::lay_out(int32_t rows, int64_t pages) {
  size_ = 0;
  for (Part* each : {&tokens_, &positions_, &row_pages_, &outputs_}) *each = part(rows);
  row_spans_ = part(rows + 1);
  span_range_ = part(2);
  span_rows_ = part(spans_of(rows, pages));
  pages_ = part(pages);
  // All tiles of a sequence but its last are full.
  tiles_ = part(3 * (int64_t{rows} + int64_t{rows} * kMaxQueriesARow / kTileQueries));
}

Result<bool> StepInput::reserve(int32_t rows, int64_t pages) {
  if (rows <= tokens_.size && pages <= pages_.size) return false;
  rows = static_cast<int32_t>(std::max<int64_t>(rows, tokens_.size));
  pages = std::max(pages, pages_.size);
  const int64_t bytes = device_bytes(rows, pages);
  MARTLET_ASSIGN(host_, Memory::allocate(Place::pinned, bytes));
  MARTLET_ASSIGN(device_, Memory::allocate(Place::device, bytes));
  lay_out(rows, pages);  // not before there is memory for it
  return true;
}

Status StepInput::reserve_alone(int32_t rows, int32_t context) {
  const int64_t bytes = alone_bytes(rows, context);
  if (bytes <= alone_device_.size()) return {};
  alone_device_ = Memory();
  MARTLET_ASSIGN(alone_device_, Memory::allocate(Place::device, bytes));
  return {};
}

int64_t StepInput::spans_of(int32_t rows, int64_t pages) {
  return round_up(pages / kPagesOfSpan + 2 * int64_t{rows});
}

int64_t StepInput::device_bytes(int32_t rows, int64_t pages) {
  StepInput input;
  input.lay_out(rows, pages);
  return input.size_ * kNumberBytes;
}

// A range has one row at least.
int64_t StepInput::alone_bytes(int32_t rows, int32_t context) {
  const int64_t spans = int64_t{rows} * ((int64_t{context} + kSpanTokens - 1) / kSpanTokens);
  return (rows + 1 + 2 * int64_t{rows} + spans) * kNumberBytes;
}

int64_t StepInput::pages_of(const Batch& batch) {
  int64_t pages = 0;
  for (const PageTable& group : batch.groups)
    pages = std::max<int64_t>(pages, static_cast<int64_t>(group.pages.size()));
  return pages;
}

Status StepInput::send_tiles(int32_t queries_a_row, cudaStream_t stream) {
  if (queries_a_row == queries_a_row_ || shared_keys_.empty()) return {};
  if (queries_a_row > kMaxQueriesARow)
    return Error{ErrorKind::model, "unsupported_heads", "more than 64 query heads share a key head", ""};
  if (queries_a_row_ != 0) MARTLET_TRY(check(cudaStreamSynchronize(stream), "cutting tiles"));
  queries_a_row_ = queries_a_row;
  auto* tiles = reinterpret_cast<QueryTile*>(host(tiles_));
  tile_count_ = 0;
  for (const Sequence& sequence : shared_keys_) {
    for (int32_t query = 0; query < sequence.rows * queries_a_row; query += kTileQueries)
      tiles[tile_count_++] = {sequence.first_row, sequence.rows, query};
  }
  return send(tiles_, int64_t{3} * tile_count_, stream);
}

void StepInput::fill(const Batch& batch, std::span<const Token> tokens, int32_t padded_rows, bool alone) {
  const auto rows = batch.rows();
  std::copy(tokens.begin(), tokens.end(), host(tokens_));
  std::copy(batch.positions.begin(), batch.positions.end(), host(positions_));
  std::copy(batch.outputs.begin(), batch.outputs.end(), host(outputs_));
  for (int32_t row = rows; row < padded_rows; ++row) {
    host(tokens_)[row] = host(positions_)[row] = 0;
    host(row_pages_)[row] = -1;
  }
  const PageTable table = batch.groups.empty() ? PageTable() : batch.groups[0];
  std::copy(table.pages.begin(), table.pages.end(), host(pages_));
  page_count_ = static_cast<int32_t>(table.pages.size());
  spans_ = tile_count_ = queries_a_row_ = 0;
  shared_keys_.clear();
  alone_.clear();
  int32_t *row_spans = host(row_spans_), *span_rows = host(span_rows_);
  for (int32_t s = 0; s < batch.sequences(); ++s) {
    const int32_t first = batch.starts[static_cast<size_t>(s)], end = batch.starts[static_cast<size_t>(s) + 1];
    for (int32_t row = first; row < end; ++row) host(row_pages_)[row] = table.starts[static_cast<size_t>(s)];
    const int32_t spans = end - first == 1 ? batch.positions[static_cast<size_t>(first)] / kSpanTokens + 1 : 0;
    const bool shared_out = end - first == 1 && first < kMergeRows;
    if (!shared_out && !alone) shared_keys_.push_back({first, end - first});
    for (int32_t row = first; row < end; ++row) row_spans[row] = spans_;
    if (shared_out) {
      std::fill_n(span_rows + spans_, spans, first);
      spans_ += spans;
    }
  }
  std::fill(row_spans + rows, row_spans + padded_rows + 1, spans_);
  host(span_range_)[0] = 0, host(span_range_)[1] = spans_;
  if (alone) fill_alone(batch);
}

// Ranges end where their rows or their spans are as many as one launch has room for.
void StepInput::fill_alone(const Batch& batch) {
  std::vector<int32_t> starts, span_rows;  // of ranges; of spans
  alone_rows_ = batch.rows();
  int32_t rows_of_range = 0;
  for (int32_t row = 0; row < alone_rows_; ++row) {
    const auto first = static_cast<int32_t>(span_rows.size());
    const int32_t spans = batch.positions[static_cast<size_t>(row)] / kSpanTokens + 1;
    if (starts.empty() || rows_of_range == kMergeRows || first + spans - starts.back() > max_spans()) {
      starts.push_back(first);
      rows_of_range = 0;
    }
    ++rows_of_range;
    alone_.push_back(first);
    span_rows.insert(span_rows.end(), static_cast<size_t>(spans), row);
  }
  ranges_ = static_cast<int32_t>(starts.size());
  starts.push_back(static_cast<int32_t>(span_rows.size()));
  alone_.push_back(starts.back());
  for (int32_t range = 0; range < ranges_; ++range) {
    const int32_t first = starts[static_cast<size_t>(range)];
    alone_.insert(alone_.end(), {first, starts[static_cast<size_t>(range) + 1] - first});
  }
  alone_.insert(alone_.end(), span_rows.begin(), span_rows.end());
}

Status StepInput::send_alone(cudaStream_t stream) {
  const size_t bytes = alone_.size() * sizeof(int32_t);
  if (static_cast<int64_t>(bytes) > alone_device_.size()) {
    alone_device_ = Memory();
    MARTLET_ASSIGN(alone_device_, Memory::allocate(Place::device, static_cast<int64_t>(2 * bytes)));
  }
  return check(cudaMemcpyAsync(alone_device_.data(), alone_.data(), bytes, cudaMemcpyHostToDevice, stream),
               "sending a step");
}

Status StepInput::send(const Part& part, int64_t count, cudaStream_t stream) const {
  if (count == 0) return {};
  return check(cudaMemcpyAsync(device_.as<int32_t>() + part.first, host(part),
                               static_cast<size_t>(count) * sizeof(int32_t), cudaMemcpyHostToDevice, stream),
               "sending a step");
}

Status StepInput::send(cudaStream_t stream) {
  if (!alone_.empty()) MARTLET_TRY(send_alone(stream));
  // All lies side by side: a second copy costs as much time as the bytes between.
  const int64_t whole = pages_.first + page_count_;
  if (whole * static_cast<int64_t>(sizeof(int32_t)) <= kOneCopyBytes) return send({0, whole}, whole, stream);
  MARTLET_TRY(send({0, span_rows_.first}, span_rows_.first, stream));
  MARTLET_TRY(send(span_rows_, spans_, stream));
  return send(pages_, page_count_, stream);
}

StepRows StepInput::rows(int32_t range) const {
  StepRows out = {device(positions_), device(row_pages_), device(pages_),
                  device(row_spans_), device(span_rows_), device(span_range_)};
  if (alone_.empty()) return out;
  out.row_spans = alone_device_.as<int32_t>();
  const int32_t* ranges = out.row_spans + alone_rows_ + 1;
  out.span_range = ranges + 2 * range;
  out.span_rows = ranges + 2 * ranges_;
  return out;
}

}  // namespace martlet::cuda
