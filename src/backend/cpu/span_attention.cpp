#include "backend/cpu/span_attention.h"

#include <algorithm>

namespace martlet::cpu {
namespace {

int64_t padded(int64_t size) {
  return (size + 15) / 16 * 16;
}

// How a thread's scratch is cut.
struct Scratch {
  float *scores, *page;  // a page's keys or values as floats
  float* head;           // one that is to be stored, padded with zeros
  Partial sum, next;
  std::byte* elements;  // of that head
  uint16_t* scales;

  Scratch(std::byte* memory, int64_t key_size, int64_t value_size) {
    const int64_t widest = padded(std::max(key_size, value_size));
    scores = reinterpret_cast<float*>(memory);
    page = scores + kTileQueries * kSpanTokens;
    head = page + kPageTokens * widest;
    std::byte* partials = reinterpret_cast<std::byte*>(head + widest);
    sum = Partial::at(partials, value_size);
    next = Partial::at(partials + Partial::bytes(value_size), value_size);
    elements = partials + 2 * Partial::bytes(value_size);
    scales = reinterpret_cast<uint16_t*>(elements + widest * static_cast<int64_t>(sizeof(float)));
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

std::byte* keys_at(const AttentionStep& step, const AttentionItem& item, int32_t position) {
  return step.cache.keys(step.page(item.tile.sequence, position), step.attention.layer,
                         static_cast<int32_t>(item.key_head));
}
std::byte* values_at(const AttentionStep& step, const AttentionItem& item, int32_t position) {
  return step.cache.values(step.page(item.tile.sequence, position), step.attention.layer,
                           static_cast<int32_t>(item.key_head));
}

void score_page(const AttentionStep& step, const AttentionItem& item, int32_t span, int32_t first_token,
                const std::byte* next, Scratch& scratch) {
  const int64_t key_size = step.attention.key_size;
  const int64_t first = first_seeing(step, item.tile, span, first_token + 1) * item.query_heads;
  std::byte* keys = keys_at(step, item, span * kSpanTokens + first_token);
  step.kernels().score({item_queries(step, item) + first * key_size, key_size}, item.queries() - first, key_size,
                       {keys, step.cache.key_scales(keys), next, scratch.page},
                       {scratch.scores + first * kSpanTokens + first_token, kSpanTokens});
}

// Rows that see the whole page together, the others row by row: slots beyond what a row sees hold anything, even NaN.
void sum_page(const AttentionStep& step, const AttentionItem& item, int32_t span, int32_t first_token,
              const std::byte* next, Scratch& scratch, float* out) {
  const int64_t value_size = step.attention.value_size, heads = item.query_heads;
  const int64_t some = first_seeing(step, item.tile, span, first_token + 1);
  const int64_t all = first_seeing(step, item.tile, span, first_token + kPageTokens);
  const int64_t together = (item.tile.rows - all) * heads;
  std::byte* values = values_at(step, item, span * kSpanTokens + first_token);
  const PageMatrix matrix = {values, step.cache.value_scales(values), next, scratch.page};
  const auto sum = [&](int64_t row, int64_t queries, int64_t tokens) {
    step.kernels().sum({scratch.scores + row * heads * kSpanTokens + first_token, kSpanTokens}, queries, tokens, matrix,
                       value_size, {out + row * heads * value_size, value_size}, first_token > 0);
  };
  for (int64_t i = some; i < all; ++i) sum(i, heads, visible(step, item.tile.first_row + i, span) - first_token);
  if (together > 0) sum(all, together, kPageTokens);
}

// room.head, as the cache stores it, to room.elements and room.scales; the scales to their column too.
void encode(const AttentionStep& step, const Scratch& room, int64_t size, uint16_t* scales, int32_t slot) {
  const CacheFormat& format = step.cache.format();
  if (format.mixed) step.level.attention->mix(room.head, size);
  std::fill(room.head + size, room.head + padded(size), 0.0f);
  step.kernels().encode(room.head, padded(size), room.elements, room.scales);
  for (int64_t b = 0; b < format.blocks(size); ++b) scales[b * kPageTokens + slot] = room.scales[b];
}

template <class T>
void scatter(const std::byte* elements, int64_t size, std::byte* keys, int32_t slot) {
  const T* from = reinterpret_cast<const T*>(elements);
  T* to = reinterpret_cast<T*>(keys) + slot;
  for (int64_t i = 0; i < size; ++i) to[i * kPageTokens] = from[i];
}

// Two elements that hold a nibble each become one that holds both.
std::byte pack(std::byte low, std::byte high) {
  return (low & std::byte{15}) | high << 4;
}

void store_key(const AttentionStep& step, const Scratch& room, std::byte* keys, int32_t slot) {
  const CacheFormat& format = step.cache.format();
  int64_t size = step.attention.key_size;
  encode(step, room, size, step.cache.key_scales(keys), slot);
  if (format.packed == 2) {
    size /= 2;
    for (int64_t i = 0; i < size; ++i) room.elements[i] = pack(room.elements[2 * i], room.elements[2 * i + 1]);
  }
  switch (format.element_bytes) {
    case 1:
      return scatter<uint8_t>(room.elements, size, keys, slot);
    case 2:
      return scatter<uint16_t>(room.elements, size, keys, slot);
    default:
      return scatter<uint32_t>(room.elements, size, keys, slot);
  }
}

void store_value(const AttentionStep& step, const Scratch& room, std::byte* values, int32_t slot) {
  const CacheFormat& format = step.cache.format();
  const int64_t size = step.attention.value_size, bytes = format.row_bytes(size);
  encode(step, room, size, step.cache.value_scales(values), slot);
  if (format.packed == 2) {
    std::fill(room.elements + size, room.elements + 2 * bytes, std::byte{0});
    for (int64_t i = 0; i < bytes; ++i) {
      const int64_t low = i / 16 * 32 + i % 16;
      values[slot * bytes + i] = pack(room.elements[low], room.elements[low + 16]);
    }
  } else {
    std::copy_n(room.elements, bytes, values + slot * bytes);
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
  const int64_t floats = kTileQueries * kSpanTokens + (kPageTokens + 2) * widest;
  return floats * static_cast<int64_t>(sizeof(float)) + 2 * Partial::bytes(value_size) +
         widest * static_cast<int64_t>(sizeof(uint16_t));
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
    if (step.cache.format().mixed) step.level.attention->mix(query, a.key_size);
  }
  const int32_t position = step.batch.positions[static_cast<size_t>(row)], slot = position % kPageTokens;
  const Page page = step.page(step.row_sequences[static_cast<size_t>(row)], position);
  for (int32_t h = 0; h < a.kv_heads; ++h, from += a.key_size) {
    prepare(from, step.k_norm, a.k_norm.epsilon, room.head);
    store_key(step, room, step.cache.keys(page, a.layer, h), slot);
  }
  for (int32_t h = 0; h < a.kv_heads; ++h, from += a.value_size) {
    std::copy_n(from, a.value_size, room.head);
    store_value(step, room, step.cache.values(page, a.layer, h), slot);
  }
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
      if (step.cache.format().mixed) step.level.attention->mix(out, a.value_size);
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
