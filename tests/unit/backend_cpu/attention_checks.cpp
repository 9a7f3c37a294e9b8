#include "attention_checks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "backend/cpu/span_attention.h"
#include "tensor/dequantize.h"

namespace martlet::cpu {
namespace {

// Rows [q heads | k heads | v heads] of a sequence; keys have large values in a few places, as those of models do.
std::vector<float> random_rows(const AttentionCase& c) {
  std::mt19937 random(static_cast<uint32_t>(c.context * 31 + c.heads * 7 + c.key_size));
  std::normal_distribution<float> normal;
  const int32_t keys = c.heads * c.key_size, values = keys + c.kv_heads * c.key_size;
  const int32_t columns = values + c.kv_heads * c.value_size;
  std::vector<float> out(static_cast<size_t>(c.context) * static_cast<size_t>(columns));
  for (size_t i = 0; i < out.size(); ++i) {
    const auto column = static_cast<int32_t>(i % static_cast<size_t>(columns));
    const bool outlier = column >= keys && column < values && (column - keys) % c.key_size == 5;
    out[i] = normal(random) * (outlier ? 8.0f : 1.0f);
  }
  return out;
}

std::span<const float> head_of(const AttentionCase& c, const std::vector<float>& rows, int32_t row, int32_t offset,
                               int32_t size) {
  const int32_t columns = (c.heads + c.kv_heads) * c.key_size + c.kv_heads * c.value_size;
  return std::span(rows).subspan(static_cast<size_t>(row * columns + offset), static_cast<size_t>(size));
}

double scale_of(const AttentionCase& c) {
  return 1 / std::sqrt(static_cast<float>(c.key_size));
}

std::vector<double> in_doubles(const AttentionCase& c, const std::vector<float>& rows) {
  std::vector<std::vector<double>> keys, values;  // [token * kv_heads + head]
  for (int32_t t = 0; t < c.context; ++t) {
    for (int32_t h = 0; h < c.kv_heads; ++h) {
      const auto key = head_of(c, rows, t, (c.heads + h) * c.key_size, c.key_size);
      const auto value = head_of(c, rows, t, (c.heads + c.kv_heads) * c.key_size + h * c.value_size, c.value_size);
      keys.push_back(as_cached(c.type, {key.begin(), key.end()}));
      values.push_back(as_cached(c.type, {value.begin(), value.end()}));
    }
  }
  std::vector<double> out;
  for (int32_t row = c.context - c.rows; row < c.context; ++row) {
    for (int32_t h = 0; h < c.heads; ++h) {
      const auto query = head_of(c, rows, row, h * c.key_size, c.key_size);
      const auto cached = [&](const auto& from, int32_t token) {
        return from[static_cast<size_t>(token * c.kv_heads + h / (c.heads / c.kv_heads))];
      };
      std::vector<double> weights;
      for (int32_t t = 0; t <= row; ++t) {
        const std::vector<double> key = cached(keys, t);
        double score = 0;
        for (size_t i = 0; i < key.size(); ++i) score += key[i] * query[i];
        weights.push_back(score * scale_of(c));
      }
      const double largest = *std::max_element(weights.begin(), weights.end());
      double total = 0;
      std::vector<double> sums(static_cast<size_t>(c.value_size));
      for (int32_t t = 0; t <= row; ++t) {
        const double weight = std::exp(weights[static_cast<size_t>(t)] - largest);
        const std::vector<double> value = cached(values, t);
        for (size_t i = 0; i < value.size(); ++i) sums[i] += weight * value[i];
        total += weight;
      }
      for (const double sum : sums) out.push_back(sum / total);
    }
  }
  return out;
}

double as_bfloat16(double x) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

// By its definition: entry (i, j) is negative where i and j have an odd number of bits in common.
void multiply_by_hadamard(std::vector<double>& x) {
  const size_t part = x.size() & -x.size();
  std::vector<double> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < part; ++j)
      out[i] += (std::popcount(i % part & j) % 2 ? -1 : 1) * x[i / part * part + j] / std::sqrt(part);
  }
  x = out;
}

void quantize(std::span<double> block, int limit) {
  double largest = 0;
  for (const double x : block) largest = std::max(largest, std::abs(x));
  if (largest == 0) return;
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(largest) / static_cast<float>(limit));
  const double scale = std::bit_cast<float>((bits + 0xffff) & 0xffff0000);
  for (double& x : block) x = std::nearbyint(x / scale) * scale;
}

std::vector<Page> scattered_pages(int32_t tokens) {
  std::vector<Page> out(static_cast<size_t>(tokens / kPageTokens + 1));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<Page>(out.size() - 1 - i);
  return out;
}

}  // namespace

std::string AttentionCase::name() const {
  return std::string(name_of(type)) + " " + std::to_string(heads) + "/" + std::to_string(kv_heads) + " heads of " +
         std::to_string(key_size) + "/" + std::to_string(value_size) + ", " + std::to_string(rows) + " rows of " +
         std::to_string(context);
}

double attention_tolerance(CacheType type) {
  // A value in the middle between two codes may go either way: one step, seen through the softmax.
  return format_of(type).block == 0 ? 2e-5 : type == CacheType::q8 ? 2e-3 : 2e-2;
}

std::vector<double> as_cached(CacheType type, std::vector<double> head) {
  const CacheFormat& format = format_of(type);
  if (format.mixed) multiply_by_hadamard(head);
  for (double& x : head) {
    if (type == CacheType::f16) x = half_to_float(float_to_half(static_cast<float>(x)));
    if (type == CacheType::bf16) x = as_bfloat16(x);
  }
  if (format.block > 0) {
    for (size_t i = 0; i < head.size(); i += static_cast<size_t>(format.block))
      quantize(std::span(head).subspan(i, std::min(head.size() - i, static_cast<size_t>(format.block))),
               type == CacheType::q8 ? 127 : 7);
  }
  if (format.mixed) multiply_by_hadamard(head);
  return head;
}

std::vector<float> run_attention(const AttentionCase& c, const Level& level) {
  const std::vector<float> qkv = random_rows(c);
  const std::vector<Page> pages = scattered_pages(c.context);
  const CacheGroup group = {
      CacheGroup::Kind::paged, 2, c.kv_heads, c.key_size, c.value_size, static_cast<int32_t>(pages.size()), c.type};
  const PagedCache cache = std::move(*PagedCache::create(group));
  // What nobody has written is NaN, in elements and scales.
  for (const Page page : pages) std::ranges::fill(cache.page(page), std::byte{0xff});
  const Attention attention = {0, 1, c.heads, c.kv_heads, c.key_size, c.value_size, static_cast<float>(scale_of(c))};
  const int32_t page_starts[] = {0, static_cast<int32_t>(pages.size())};
  const PageTable table = {page_starts, pages};
  std::vector<std::byte> scratch(static_cast<size_t>(attention_scratch_bytes(c.key_size, c.value_size)));
  std::vector<float> out(static_cast<size_t>(c.rows * c.heads * c.value_size));
  const auto run = [&](int32_t first, int32_t rows, bool attend) {
    std::vector<int32_t> positions(static_cast<size_t>(rows));
    for (int32_t r = 0; r < rows; ++r) positions[static_cast<size_t>(r)] = first + r;
    const std::vector<Token> tokens(positions.begin(), positions.end());
    const std::vector<int32_t> row_sequences(positions.size(), 0);
    const int32_t starts[] = {0, rows}, lengths[] = {first + rows};
    const Batch batch = {
        .tokens = tokens, .positions = positions, .starts = starts, .context_lengths = lengths, .groups = {&table, 1}};
    std::vector<float> queries(static_cast<size_t>(rows * c.heads * c.key_size));
    const AttentionStep step = {attention,      batch,     row_sequences, cache,   table,
                                level,          nullptr,   nullptr,       nullptr, &head_of(c, qkv, first, 0, 1)[0],
                                queries.data(), out.data()};
    for (int32_t r = 0; r < rows; ++r) write_row(step, r, scratch.data());
    if (!attend) return;
    for (const AttentionItem& item : attention_items(step)) attend_all(step, item, scratch.data());
  };
  if (c.context > c.rows) run(0, c.context - c.rows, false);
  run(c.context - c.rows, c.rows, true);
  return out;
}

std::string check_against_doubles(const AttentionCase& c) {
  const std::vector<double> expected = in_doubles(c, random_rows(c));
  std::vector<float> first;
  for (const Level* level : levels()) {
    if (!level->available()) continue;
    const std::vector<float> out = run_attention(c, *level);
    double worst = 0;
    for (size_t i = 0; i < out.size(); ++i)
      worst = std::max(worst, std::isnan(out[i]) ? 1e9 : std::abs(out[i] - expected[i]));
    const std::string at = c.name() + ", " + std::string(level->name) + ": ";
    if (worst > attention_tolerance(c.type)) return at + "off by " + std::to_string(worst);
    if (first.empty()) first = out;
    if (std::memcmp(out.data(), first.data(), out.size() * sizeof(float)) != 0)
      return at + "not the bits of " + std::string(levels().front()->name);
  }
  return "";
}

namespace {

constexpr int64_t kHead = 64;

struct Encoded {
  std::vector<std::byte> elements;
  std::vector<uint16_t> scales;

  Encoded(CacheType type, const Level& level, const std::vector<float>& head)
      : elements(static_cast<size_t>(kHead * format_of(type).element_bytes)),
        scales(static_cast<size_t>(format_of(type).blocks(kHead))) {
    level.attention->cached[static_cast<size_t>(type)].encode(head.data(), kHead, elements.data(), scales.data());
  }
  friend bool operator==(const Encoded&, const Encoded&) = default;
};

// Value i of the head: the score of a query that is one there, where the head is the key of token 0.
float decoded(CacheType type, const Level& level, const Encoded& head, int64_t i) {
  const CacheFormat& format = format_of(type);
  std::vector<std::byte> keys(static_cast<size_t>(format.key_bytes(kHead)));
  std::vector<uint16_t> scales(static_cast<size_t>(format.blocks(kHead) * kPageTokens));
  for (int64_t k = 0; k < kHead; ++k) {
    std::byte* to = &keys[static_cast<size_t>(k / format.packed * format.key_row_bytes())];
    const std::byte* from = &head.elements[static_cast<size_t>(k * format.element_bytes)];
    if (format.packed == 2) {
      *to |= (*from & std::byte{15}) << (k % 2 * 4);
    } else {
      std::copy_n(from, format.element_bytes, to);
    }
  }
  for (size_t b = 0; b < head.scales.size(); ++b) scales[b * kPageTokens] = head.scales[b];
  std::vector<float> query(kHead), scores(kPageTokens);
  query[static_cast<size_t>(i)] = 1;
  level.attention->cached[static_cast<size_t>(type)].score(
      {query.data(), kHead}, 1, kHead, {keys.data(), scales.data(), keys.data()}, {scores.data(), kPageTokens});
  return scores[0];
}

// Largest relative error of a value, against the head's largest.
double largest_error(CacheType type) {
  constexpr double kErrors[] = {0, 0x1p-11, 0x1p-8, 0.502 / 127, 0.504 / 7};
  return kErrors[static_cast<size_t>(type)];
}

}  // namespace

std::string check_encoding(CacheType type, const Level& level) {
  const std::string at = std::string(name_of(type)) + ", " + std::string(level.name) + ": ";
  std::vector<float> head(kHead);
  for (const float magnitude : {0.0f, 1e-30f, 1e-6f, 1.0f, 30'000.0f}) {
    if (type == CacheType::f16 && magnitude > 0 && magnitude < 1e-3f) continue;  // below its smallest normal number
    for (size_t i = 0; i < head.size(); ++i) head[i] = magnitude * std::sin(static_cast<float>(i));
    const Encoded encoded(type, level, head);
    if (!(encoded == Encoded(type, *levels().front(), head))) return at + "not the code of the scalar level";
    for (int64_t i = 0; i < kHead; ++i) {
      if (!(std::abs(decoded(type, level, encoded, i) - head[static_cast<size_t>(i)]) <=
            largest_error(type) * magnitude))
        return at + "value " + std::to_string(i) + " of magnitude " + std::to_string(magnitude) + " is lost";
    }
  }
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    std::ranges::fill(head, 1.0f);
    head[40] = bad;
    const Encoded encoded(type, level, head);
    if (!(encoded == Encoded(type, *levels().front(), head))) return at + "not the code of the scalar level";
    if (std::isfinite(decoded(type, level, encoded, 40))) return at + "hides what is not finite";
  }
  return "";
}

std::vector<AttentionCase> attention_cases() {
  struct Shape {
    int32_t heads, kv_heads, key_size, value_size;
  };
  // Groups of one to eight and more than a tile's queries; sizes that blocks do not divide.
  constexpr Shape kShapes[] = {{2, 2, 64, 64},  {2, 1, 80, 80}, {6, 2, 96, 96}, {4, 1, 128, 128}, {5, 1, 32, 16},
                               {6, 1, 64, 128}, {7, 1, 40, 48}, {8, 1, 16, 32}, {1, 1, 256, 256}, {70, 1, 16, 16}};
  struct Length {
    int32_t context, rows;
  };
  constexpr Length kLengths[] = {{1, 1}, {32, 1}, {33, 2}, {70, 40}, {256, 1}, {600, 1}, {515, 9}};
  std::vector<AttentionCase> out;
  for (int type = 0; type < kKeptTypes; ++type) {
    size_t i = 0;
    for (const Shape& s : kShapes) {
      for (const Length& length : kLengths) {
        if (s.key_size >= 128 && length.rows > 9 && s.heads > 1) continue;  // slow at the scalar level
        if (length.context > 300 && i++ % 3 != 0) continue;
        out.push_back(
            {static_cast<CacheType>(type), s.heads, s.kv_heads, s.key_size, s.value_size, length.context, length.rows});
      }
    }
  }
  return out;
}

int64_t run_all_attention_checks(void (*report)(const std::string& text)) {
  int64_t checks = 0;
  const auto note = [&](const std::string& text) {
    ++checks;
    if (!text.empty()) report(text);
  };
  for (const AttentionCase& c : attention_cases()) note(check_against_doubles(c));
  for (const Level* level : levels()) {
    if (!level->available()) continue;
    for (int type = 0; type < kKeptTypes; ++type) note(check_encoding(static_cast<CacheType>(type), *level));
  }
  return checks;
}

}  // namespace martlet::cpu
