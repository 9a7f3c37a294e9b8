#include "backend/cpu/span_attention.h"

#include <algorithm>

namespace martlet::cpu {
namespace {

// Up to so many queries, halves are quicker widened on the way into the registers than once for all.
constexpr int64_t kFewQueries = 6;

int64_t padded(int64_t size) {
  return (size + 15) / 16 * 16;
}

// How a thread's scratch is cut.
struct Scratch {
  float *scores, *page, *key;
  uint16_t* halves;
  Partial sum, next;

  Scratch(std::byte* memory, int64_t key_size, int64_t value_size) {
    const int64_t widest = padded(std::max(key_size, value_size));
    scores = reinterpret_cast<float*>(memory);
    page = scores + kTileQueries * kSpanTokens;
    key = page + kPageTokens * widest;
    halves = reinterpret_cast<uint16_t*>(key + widest);
    std::byte* partials = reinterpret_cast<std::byte*>(key + 2 * widest);
    sum = Partial::at(partials, value_size);
    next = Partial::at(partials + Partial::bytes(value_size), value_size);
  }
};

// Tokens of the span that a row sees.
int32_t visible(const AttentionStep& step, int64_t row, int32_t span) {
  const int32_t seen = step.batch.positions[static_cast<size_t>(row)] + 1 - span * kSpanTokens;
  return std::clamp(seen, 0, kSpanTokens);
}

const float* item_queries(const AttentionStep& step, const AttentionItem& item) {
  const int64_t row = item.key_head * step.rows() + item.tile.first_row;
  return step.queries + (row * step.group() + item.first_query_head) * step.attention.key_size;
}

const std::byte* keys_at(const AttentionStep& step, const AttentionItem& item, int32_t position) {
  return step.cache.keys(step.page(item.tile.sequence, position), step.attention.layer,
                         static_cast<int32_t>(item.key_head));
}
const std::byte* values_at(const AttentionStep& step, const AttentionItem& item, int32_t position) {
  return step.cache.values(step.page(item.tile.sequence, position), step.attention.layer,
                           static_cast<int32_t>(item.key_head));
}

// Keys or values of one page: as cached, and as floats where they are halves that many queries share.
struct PageMatrix {
  const std::byte* cached;
  const std::byte* next;  // matrix that comes after this one
  const float* floats;    // null: not widened

  PageMatrix(const AttentionStep& step, const std::byte* cached, const std::byte* next, int64_t size, int64_t queries,
             float* room)
      : cached(cached), next(next), floats(nullptr) {
    if (step.cache.stored_as() == CacheValues::f32) {
      floats = reinterpret_cast<const float*>(cached);
    } else if (queries > kFewQueries) {
      step.level.attention->widen(reinterpret_cast<const uint16_t*>(cached), size * kPageTokens, room);
      floats = room;
    }
  }
};

// c = a * b or c += a * b, where b is a matrix of a page.
void multiply_page(const AttentionStep& step, const float* a, int64_t a_stride, int64_t rows, int64_t depth,
                   const PageMatrix& b, int64_t columns, float* c, int64_t c_stride, bool add) {
  const AttentionKernels& kernels = *step.level.attention;
  if (b.floats) {
    kernels.multiply(a, a_stride, rows, depth, b.floats, columns, columns, c, c_stride, add);
  } else {
    const auto* halves = reinterpret_cast<const uint16_t*>(b.cached);
    kernels.multiply_halves(a, a_stride, rows, depth, halves, columns, columns, c, c_stride, add, b.next);
  }
}

void score_page(const AttentionStep& step, const AttentionItem& item, int32_t span, int32_t first_token,
                const std::byte* next, Scratch& scratch) {
  const int64_t key_size = step.attention.key_size;
  const int64_t first = first_seeing(step, item.tile, span, first_token + 1) * item.query_heads;
  const PageMatrix keys(step, keys_at(step, item, span * kSpanTokens + first_token), next, key_size,
                        item.queries() - first, scratch.page);
  multiply_page(step, item_queries(step, item) + first * key_size, key_size, item.queries() - first, key_size, keys,
                kPageTokens, scratch.scores + first * kSpanTokens + first_token, kSpanTokens, false);
}

// Rows that see the whole page together, the others row by row: slots beyond what a row sees hold anything, even NaN.
void sum_page(const AttentionStep& step, const AttentionItem& item, int32_t span, int32_t first_token,
              const std::byte* next, Scratch& scratch, float* out) {
  const int64_t value_size = step.attention.value_size, heads = item.query_heads;
  const int64_t some = first_seeing(step, item.tile, span, first_token + 1);
  const int64_t all = first_seeing(step, item.tile, span, first_token + kPageTokens);
  const int64_t together = (item.tile.rows - all) * heads;
  const PageMatrix values(step, values_at(step, item, span * kSpanTokens + first_token), next, value_size,
                          std::max(together, heads), scratch.page);
  const auto sum = [&](int64_t row, int64_t queries, int64_t tokens) {
    multiply_page(step, scratch.scores + row * heads * kSpanTokens + first_token, kSpanTokens, queries, tokens, values,
                  value_size, out + row * heads * value_size, value_size, first_token > 0);
  };
  for (int64_t i = some; i < all; ++i) sum(i, heads, visible(step, item.tile.first_row + i, span) - first_token);
  if (together > 0) sum(all, together, kPageTokens);
}

template <class T>
void scatter(const T* key, int64_t size, std::byte* keys, int32_t slot) {
  T* to = reinterpret_cast<T*>(keys) + slot;
  for (int64_t i = 0; i < size; ++i) to[i * kPageTokens] = key[i];
}

void store_key(const AttentionStep& step, const Scratch& room, std::byte* keys, int32_t slot) {
  const int64_t size = step.attention.key_size;
  if (step.cache.stored_as() == CacheValues::f32) return scatter(room.key, size, keys, slot);
  step.level.attention->narrow(room.key, padded(size), room.halves);
  scatter(room.halves, size, keys, slot);
}

void store_value(const AttentionStep& step, const float* value, std::byte* values, int32_t slot) {
  const int64_t size = step.attention.value_size;
  if (step.cache.stored_as() == CacheValues::f32) {
    std::copy_n(value, size, reinterpret_cast<float*>(values) + slot * size);
  } else {
    step.level.attention->narrow(value, size, reinterpret_cast<uint16_t*>(values) + slot * size);
  }
}

}  // namespace

int64_t first_seeing(const AttentionStep& step, const RowTile& tile, int32_t span, int32_t tokens) {
  int64_t i = 0;
  while (i < tile.rows && visible(step, tile.first_row + i, span) < tokens) ++i;
  return i;
}

int64_t Partial::bytes(int64_t value_size) {
  return kTileQueries * (static_cast<int64_t>(sizeof(Softmax)) + value_size * static_cast<int64_t>(sizeof(float)));
}

Partial Partial::at(std::byte* memory, int64_t value_size) {
  auto* out = reinterpret_cast<float*>(memory);
  return {reinterpret_cast<Softmax*>(out + kTileQueries * value_size), out};
}

int64_t attention_scratch_bytes(int64_t key_size, int64_t value_size) {
  const int64_t widest = padded(std::max(key_size, value_size));
  return (kTileQueries * kSpanTokens + kPageTokens * widest + 2 * widest) * static_cast<int64_t>(sizeof(float)) +
         2 * Partial::bytes(value_size);
}

std::vector<RowTile> row_tiles(const AttentionStep& step) {
  const auto most = static_cast<int32_t>(std::max<int64_t>(1, kTileQueries / step.group()));
  std::vector<RowTile> out;
  for (int32_t s = 0; s < step.batch.sequences(); ++s) {
    const int32_t end = step.batch.starts[static_cast<size_t>(s) + 1];
    for (int32_t row = step.batch.starts[static_cast<size_t>(s)]; row < end; row += most) {
      const int32_t rows = std::min(most, end - row);
      out.push_back({s, row, rows, step.batch.positions[static_cast<size_t>(row + rows - 1)] / kSpanTokens + 1});
    }
  }
  return out;
}

std::vector<AttentionItem> attention_items(const AttentionStep& step) {
  std::vector<AttentionItem> out;
  for (const RowTile& tile : row_tiles(step)) {
    for (int64_t head = 0; head < step.attention.kv_heads; ++head) {
      // A group larger than a tile leaves one row a tile, and is cut.
      for (int64_t first = 0; first < step.group(); first += kTileQueries)
        out.push_back({tile, head, first, std::min(kTileQueries, step.group() - first)});
    }
  }
  return out;
}

void write_row(const AttentionStep& step, int64_t row, std::byte* scratch) {
  const Attention& a = step.attention;
  const VectorKernels& vectors = *step.level.vectors;
  const Scratch room(scratch, a.key_size, a.value_size);
  const auto prepare = [&](const float* from, const float* weight, float epsilon, float* to) {
    if (weight) {
      vectors.rms_norm(from, weight, epsilon, a.key_size, to);
    } else {
      std::copy_n(from, a.key_size, to);
    }
    if (const Rotation* r = step.rotation) vectors.rotate(to, r->cosines(row), r->sines(row), r->size, !r->interleaved);
  };
  const float* from =
      step.qkv + row * (int64_t{a.heads} * a.key_size + int64_t{a.kv_heads} * (a.key_size + a.value_size));
  const int64_t group = step.group();
  for (int64_t h = 0; h < a.heads; ++h, from += a.key_size) {
    float* query = step.queries + ((h / group * step.rows() + row) * group + h % group) * a.key_size;
    prepare(from, step.q_norm, a.q_norm.epsilon, query);
    vectors.scale(query, a.scale, a.key_size);
  }
  const int32_t position = step.batch.positions[static_cast<size_t>(row)], slot = position % kPageTokens;
  const Page page = step.page(step.row_sequences[static_cast<size_t>(row)], position);
  for (int32_t h = 0; h < a.kv_heads; ++h, from += a.key_size) {
    prepare(from, step.k_norm, a.k_norm.epsilon, room.key);
    store_key(step, room, step.cache.keys(page, a.layer, h), slot);
  }
  for (int32_t h = 0; h < a.kv_heads; ++h, from += a.value_size)
    store_value(step, from, step.cache.values(page, a.layer, h), slot);
}

int64_t attend_span(const AttentionStep& step, const AttentionItem& item, int32_t span, const Partial& result,
                    std::byte* scratch) {
  Scratch room(scratch, step.attention.key_size, step.attention.value_size);
  const int32_t begin = span * kSpanTokens;
  const int32_t most = visible(step, item.tile.first_row + item.tile.rows - 1, span);
  for (int32_t token = 0; token < most; token += kPageTokens) {
    const int32_t next = token + kPageTokens;
    score_page(step, item, span, token, next < most ? keys_at(step, item, begin + next) : values_at(step, item, begin),
               room);
  }
  const int64_t first = first_seeing(step, item.tile, span, 1);
  for (int64_t i = first; i < item.tile.rows; ++i) {
    const int32_t count = visible(step, item.tile.first_row + i, span);
    for (int64_t q = i * item.query_heads; q < (i + 1) * item.query_heads; ++q)
      result.states[q] = step.level.attention->soften(room.scores + q * kSpanTokens, count);
  }
  // The thread most likely goes on with the next span of the same keys; after the last there is nothing to fetch.
  const std::byte* after = keys_at(step, item, span + 1 < item.tile.spans ? begin + kSpanTokens : begin);
  for (int32_t token = 0; token < most; token += kPageTokens) {
    const int32_t next = token + kPageTokens;
    sum_page(step, item, span, token, next < most ? values_at(step, item, begin + next) : after, room, result.out);
  }
  return first;
}

void merge_span(const AttentionStep& step, const AttentionItem& item, int64_t first_row, const Partial& next,
                const Partial& sum) {
  const int64_t size = step.attention.value_size;
  for (int64_t q = first_row * item.query_heads; q < item.queries(); ++q)
    step.level.attention->merge(sum.states[q], sum.out + q * size, next.states[q], next.out + q * size, size);
}

void finish_item(const AttentionStep& step, const AttentionItem& item, const Partial& sum) {
  const Attention& a = step.attention;
  for (int64_t i = 0; i < item.tile.rows; ++i) {
    const int64_t first = item.key_head * step.group() + item.first_query_head;
    float* out = step.out + ((item.tile.first_row + i) * a.heads + first) * a.value_size;
    for (int64_t h = 0; h < item.query_heads; ++h, out += a.value_size) {
      const int64_t q = i * item.query_heads + h;
      step.level.attention->divide(sum.out + q * a.value_size, sum.states[q].sum, a.value_size, out);
    }
  }
}

void attend_all(const AttentionStep& step, const AttentionItem& item, std::byte* scratch) {
  const Scratch room(scratch, step.attention.key_size, step.attention.value_size);
  attend_span(step, item, 0, room.sum, scratch);
  for (int32_t span = 1; span < item.tile.spans; ++span) {
    const int64_t first = attend_span(step, item, span, room.next, scratch);
    merge_span(step, item, first, room.next, room.sum);
  }
  finish_item(step, item, room.sum);
}

}  // namespace martlet::cpu
