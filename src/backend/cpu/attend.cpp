#include <algorithm>
#include <cassert>

#include "backend/cpu/operators.h"
#include "backend/cpu/span_attention.h"

namespace martlet::cpu {
namespace {

// With fewer items than this for each thread, spans are shared out too.
constexpr int64_t kItemsPerThread = 4;

}  // namespace

const Rotation* CpuBackend::rotation(const Attention& attention) {
  if (!attention.rope_frequencies) return nullptr;
  for (const Rotation& r : rotations_) {
    if (r.serves(attention)) return &r;
  }
  const std::vector<float>& frequencies = stored(attention.rope_frequencies).vector;
  Rotation out = Rotation::of(attention, frequencies);
  out.table = memory_.take(batch_->rows() * out.row_bytes());
  // Sine and cosine cost about as much as thirty values of other work.
  each_row(batch_->rows(), out.size * 15, [&](int, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) out.fill_row(r, batch_->positions[static_cast<size_t>(r)], frequencies);
  });
  return &rotations_.emplace_back(std::move(out));
}

// The spans of each item on their own, in waves whose results fit in the workspace; then merged in ascending order.
void CpuBackend::attend_by_spans(const AttentionStep& step, std::span<const AttentionItem> items, int32_t spans) {
  const int64_t size = step.attention.value_size, bytes = Partial::bytes(size);
  const auto count = static_cast<int64_t>(items.size());
  const int64_t wave = std::clamp<int64_t>(kPartialBytes / (count * bytes), 1, spans);
  const Block sums = memory_.take(count * bytes), partials = memory_.take(count * wave * bytes);
  const auto sum_of = [&](int64_t i) { return Partial::at(sums.bytes() + i * bytes, size); };
  const auto partial_of = [&](int64_t i, int64_t s) {
    return Partial::at(partials.bytes() + (i * wave + s) * bytes, size);
  };
  for (int32_t first = 0; first < spans; first += static_cast<int32_t>(wave)) {
    pool_.run(count * wave, [&](int worker, int64_t begin, int64_t end) {
      for (int64_t w = begin; w < end; ++w) {
        const AttentionItem& item = items[static_cast<size_t>(w / wave)];
        const auto span = static_cast<int32_t>(first + w % wave);
        if (span >= item.tile.spans) continue;
        attend_span(step, item, span, span == 0 ? sum_of(w / wave) : partial_of(w / wave, w % wave), scratch(worker));
      }
    });
    pool_.run(count, [&](int, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const AttentionItem& item = items[static_cast<size_t>(i)];
        const auto last = std::min<int32_t>(item.tile.spans, first + static_cast<int32_t>(wave));
        for (int32_t span = std::max(first, 1); span < last; ++span)
          merge_span(step, item, first_seeing(step, item.tile, span, 1), partial_of(i, span - first), sum_of(i));
        if (last == item.tile.spans && first < last) finish_item(step, item, sum_of(i));
      }
    });
  }
}

Tensor CpuBackend::attend(const Tensor& qkv, const Attention& attention) {
  const int64_t rows = qkv.rows;
  assert(attention.heads % attention.kv_heads == 0 && rows == batch_->rows());
  const PagedCache& cache = model_->caches[static_cast<size_t>(attention.group)];
  assert(cache.group().key_size == attention.key_size && cache.group().value_size == attention.value_size);
  const auto norm_weight = [&](const Norm& norm) { return norm.weight ? stored(norm.weight).vector.data() : nullptr; };
  const float* from = values(qkv);
  const Block queries = memory_.take(rows * attention.heads * attention.key_size * static_cast<int64_t>(sizeof(float)));
  Tensor out = memory_.tensor(rows, int64_t{attention.heads} * attention.value_size);
  const AttentionStep step = {attention,
                              *batch_,
                              row_sequences_,
                              cache,
                              batch_->groups[static_cast<size_t>(attention.group)],
                              level_,
                              rotation(attention),
                              norm_weight(attention.q_norm),
                              norm_weight(attention.k_norm),
                              from,
                              queries.floats(),
                              buffer_of(out).values.floats()};
  each_row(rows, qkv.columns, [&](int worker, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) write_row(step, r, scratch(worker));
  });

  const std::vector<AttentionItem> items = attention_items(step);
  int32_t spans = 0;
  for (const AttentionItem& item : items) spans = std::max(spans, item.tile.spans);
  if (spans > 1 && static_cast<int64_t>(items.size()) < kItemsPerThread * pool_.threads() && pool_.threads() > 1) {
    attend_by_spans(step, items, spans);
  } else {
    pool_.run(static_cast<int64_t>(items.size()), [&](int worker, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) attend_all(step, items[static_cast<size_t>(i)], scratch(worker));
    });
  }
  return out;
}

}  // namespace martlet::cpu
