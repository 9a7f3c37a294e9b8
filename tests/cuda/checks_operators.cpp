#include <algorithm>
#include <cmath>
#include <numeric>

#include "checks.h"

namespace martlet::gpu {
namespace {

constexpr Format kFormats[] = {Format::F32,  Format::F16,    Format::BF16,   Format::Q4_0, Format::Q4_1, Format::Q5_0,
                               Format::Q5_1, Format::Q8_0,   Format::Q2_K,   Format::Q3_K, Format::Q4_K, Format::Q5_K,
                               Format::Q6_K, Format::IQ4_NL, Format::IQ4_XS, Format::MXFP4};
constexpr int32_t kVocabulary = 50;
// Weights and activations are halves here and doubles there: 2^-12 each, a little more where a scale is rounded too.
constexpr double kTolerance = 1.5e-3;
const CacheGroup kSmallGroup = {CacheGroup::Kind::paged, 1, 1, 16, 16, 8};

std::vector<Page> pages_from(Page first, int32_t tokens) {
  std::vector<Page> pages(static_cast<size_t>((tokens + 31) / 32));
  std::iota(pages.rbegin(), pages.rend(), first);
  return pages;
}

Rows rows_of(int32_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Token> tokens(static_cast<size_t>(count));
  for (Token& token : tokens) token = static_cast<Token>(random() % kVocabulary);
  Rows rows;
  rows.add(tokens, 0, pages_from(0, count));
  return rows;
}

// Where the operators are compared, and whether the device has copies of weights.
struct Sides {
  Backend &cpu, &cuda;
  bool copies;
  Tally& tally;
};

void compare(const Sides& sides, const std::string& name, std::span<const Upload> uploads,
             std::span<const int32_t> counts, const Forward& forward) {
  Tally& tally = sides.tally;
  Open left(sides.cuda, kSmallGroup, uploads), right(sides.cpu, kSmallGroup, uploads);
  if (sides.copies) {
    tally.expect(left.prepare(forward), name, "");
    tally.expect(sides.cuda.remark().empty(), name + ", copies", "");
  }
  for (const int32_t count : counts) {
    const Rows rows = rows_of(count, static_cast<uint32_t>(count));
    const double error = relative_error(left.run(rows, forward), right.run(rows, forward));
    if (error < kTolerance) {
      tally.expect(true, name, "");
    } else {
      tally.expect(false, name, std::to_string(count) + " rows: relative error " + std::to_string(error));
    }
  }
}

void check_format(Format format, const Sides& sides) {
  const int64_t block = std::max<int64_t>(32, info(format).block_elements);
  const std::string name(info(format).name);
  // Columns that end inside a tile, fewer and more steps than warps; rows that end inside a tile.
  for (const int64_t columns : {block, 3 * block, (1600 + block - 1) / block * block}) {
    const int64_t rows = columns == block ? 7 : columns == 3 * block ? 33 : 160;
    const std::vector<float> table = random_floats(static_cast<size_t>(kVocabulary * columns), 1);
    const std::vector<float> bias = random_floats(static_cast<size_t>(rows), 2);
    const std::vector<float> second_bias = random_floats(32, 3);
    const Matrix first = random_matrix(format, columns, rows, 4), second = random_matrix(Format::Q8_0, columns, 32, 5);
    const Upload uploads[] = {{{view_of(table, columns)}},
                              {{first.view, second.view}, {view_of(bias, rows), view_of(second_bias, 32)}},
                              {{first.view}},
                              {{view_of(bias, rows)}}};
    const int32_t counts[] = {1, 2, 5, 8, 9, 17, 33, 140};
    compare(sides, "linear, stacked with bias, " + name + " " + std::to_string(columns), uploads, counts,
            [](Backend& b, std::span<const Weight> w) { return b.linear(b.embed(w[0]), w[1]); });
    compare(sides, "linear with residual, " + name + " " + std::to_string(columns), uploads, counts,
            [](Backend& b, std::span<const Weight> w) {
              const Tensor x = b.embed(w[0]), y = b.linear(x, w[2]);
              return b.linear(x, w[2], &y);
            });
    compare(sides, "residual that is read again, " + name + " " + std::to_string(columns), uploads, counts,
            [](Backend& b, std::span<const Weight> w) {
              const Tensor x = b.embed(w[0]), y = b.linear(x, w[2]), sum = b.linear(x, w[2], &y);
              b.norm(sum, {Norm::Kind::rms, w[3], 1e-5f});  // computes the sum
              return b.linear(x, w[2], &y);
            });
  }
  const int64_t columns = 2 * block, hidden = 96;
  const std::vector<float> norm = random_floats(static_cast<size_t>(columns), 6);
  const Matrix table = random_matrix(format, columns, kVocabulary, 7), gate = random_matrix(format, columns, hidden, 8);
  const Matrix up = random_matrix(format, columns, hidden, 9), down = random_matrix(Format::Q8_0, hidden, 40, 10);
  const Upload uploads[] = {{{table.view}}, {{view_of(norm, columns)}}, {{gate.view, up.view}}, {{down.view}}};
  const int32_t counts[] = {1, 3, 16, 32, 130};
  compare(sides, "embed, " + name, uploads, counts,
          [](Backend& b, std::span<const Weight> w) { return b.embed(w[0]); });
  compare(sides, "norm and gated network, " + name, uploads, counts, [](Backend& b, std::span<const Weight> w) {
    const Tensor x = b.norm(b.embed(w[0]), {Norm::Kind::rms, w[1], 1e-5f});
    return b.linear(b.activate(b.linear(x, w[2]), Activation::silu_gated), w[3]);
  });
}

// Copies are made as far as the memory reaches, and what there is none for is told.
void check_spare(Backend& cuda, Tally& tally) {
  const Matrix table = random_matrix(Format::Q4_K, 512, kVocabulary, 1),
               matrix = random_matrix(Format::Q4_K, 512, 64, 2);
  const Upload uploads[] = {{{table.view}}, {{matrix.view}}, {{matrix.view}}};
  const Forward forward = [](Backend& b, std::span<const Weight> w) {
    const Tensor x = b.embed(w[0]), y = b.linear(x, w[1]);
    return b.linear(x, w[2], &y);
  };
  const std::pair<int64_t, std::string> expected[] = {{0, "0 of 2"}, {3 << 20, "1 of 2"}, {4 << 20, ""}};
  for (const auto& [bytes, remark] : expected) {
    cuda.spare(bytes);
    Open open(cuda, kSmallGroup, uploads);
    const bool good = open.prepare(forward) &&
                      (remark.empty() ? cuda.remark().empty() : cuda.remark().find(remark) != std::string::npos);
    tally.expect(good, "copies within " + std::to_string(bytes) + " bytes", cuda.remark());
  }
}

constexpr int32_t kCopied = 7;  // tokens of a page

struct Shape {
  int32_t heads, kv_heads, key_size, value_size, rotated;
  bool interleaved, normed;
};

// `on_cpu`: the type of cache that the device's is held to.
struct Types {
  CacheType type, on_cpu;
  bool whole_eighths;  // what is cached has few bits: any type keeps it exactly
  double tolerance;
};

void check_shape(const Shape& shape, const Types& types, Backend& cpu, Backend& cuda, Tally& tally) {
  CacheGroup group = {CacheGroup::Kind::paged, 2, shape.kv_heads, shape.key_size, shape.value_size, 200};
  const int64_t columns = shape.heads * shape.key_size + shape.kv_heads * (shape.key_size + shape.value_size);
  std::vector<float> table = random_floats(static_cast<size_t>(kVocabulary * columns), 1);
  if (types.whole_eighths) {
    for (float& x : table) x = std::clamp(std::round(x * 8), -15.0f, 15.0f) / 8;
  }
  std::vector<float> frequencies(static_cast<size_t>(shape.rotated / 2));
  for (size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] = std::pow(10'000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(shape.rotated));
  const std::vector<float> q_norm = random_floats(static_cast<size_t>(shape.key_size), 2);
  const std::vector<float> k_norm = random_floats(static_cast<size_t>(shape.key_size), 3);
  const Upload uploads[] = {{{view_of(table, columns)}},
                            {{view_of(frequencies, shape.rotated / 2)}},
                            {{view_of(q_norm, shape.key_size)}},
                            {{view_of(k_norm, shape.key_size)}}};
  const auto forward = [&](Backend& b, std::span<const Weight> w) {
    Attention a{.group = 0,
                .layer = 1,
                .heads = shape.heads,
                .kv_heads = shape.kv_heads,
                .key_size = shape.key_size,
                .value_size = shape.value_size,
                .scale = 1 / std::sqrt(static_cast<float>(shape.key_size)),
                .q_norm = {},
                .k_norm = {},
                .rope_frequencies = types.whole_eighths ? Weight() : w[1],
                .rope_magnitude = 1.1f,
                .rope_interleaved = shape.interleaved};
    if (shape.normed && !types.whole_eighths)
      a.q_norm = {Norm::Kind::rms, w[2], 1e-5f}, a.k_norm = {Norm::Kind::rms, w[3], 1e-6f};
    return b.attend(b.embed(w[0]), a);
  };
  group.type = types.type;
  Open left(cuda, group, uploads);
  group.type = types.on_cpu;
  Open right(cpu, group, uploads);
  const std::vector<Page> a = pages_from(0, 1500), b = pages_from(60, 400), c = pages_from(90, 40);
  const std::vector<Token> tokens = rows_of(1400, 4).tokens;
  const auto part = [&](int32_t first, int32_t count) {
    return std::span(tokens).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  };
  // Prefill, chunks of several sequences, decoding beside a chunk, and decoding alone.
  std::vector<Rows> steps(5);
  steps[0].add(part(0, 700), 0, a);
  steps[1].add(part(700, 300), 700, a);
  steps[1].add(part(3, 33), 0, b);
  steps[1].add(part(9, 1), 0, c);
  steps[2].add(part(77, 1), 1000, a);
  steps[2].add(part(5, 290), 33, b);
  steps[2].add(part(10, 1), 1, c);
  for (int i = 3; i < 5; ++i) {
    steps[static_cast<size_t>(i)].add(part(70 + i, 1), 998 + i, a);
    steps[static_cast<size_t>(i)].add(part(20 + i, 1), 320 + i, b);
    steps[static_cast<size_t>(i)].add(part(30 + i, 1), i - 1, c);
  }
  // A copied page instead of the second sequence's first one.
  steps[4].copies = {{0, b[0], 150, kCopied}};
  steps[4].pages[a.size()] = 150;
  steps[4].positions[1] = kCopied, steps[4].lengths[1] = kCopied + 1;
  for (size_t i = 0; i < steps.size(); ++i) {
    const double error = relative_error(left.run(steps[i], forward), right.run(steps[i], forward));
    const std::string name = "attention, " + std::string(name_of(types.type)) + ", " + std::to_string(shape.heads) +
                             "/" + std::to_string(shape.kv_heads) + " heads of " + std::to_string(shape.key_size) +
                             "/" + std::to_string(shape.value_size);
    const bool good = error < types.tolerance;
    tally.expect(good, name, good ? "" : "step " + std::to_string(i) + ": relative error " + std::to_string(error));
  }
}

}  // namespace

void check_linear(Backend& cpu, Backend& cuda, bool copies, Tally& tally) {
  for (const Format format : kFormats) check_format(format, {cpu, cuda, copies, tally});
  check_spare(cuda, tally);
}

void check_attention(Backend& cpu, Backend& cuda, bool brief, Tally& tally) {
  // The CPU keeps no fp8: that is held to its halves, exactly where it loses nothing. Brief: the first ones.
  constexpr Types kTypes[] = {{CacheType::f16, CacheType::f16, false, 3e-3},
                              {CacheType::q8, CacheType::q8, false, 5e-3},
                              {CacheType::bf16, CacheType::bf16, false, 3e-3},
                              {CacheType::fp8, CacheType::f16, true, 3e-3},
                              {CacheType::fp8, CacheType::f16, false, 6e-2}};
  constexpr Shape kShapes[] = {{4, 2, 64, 64, 64, true, false},   {8, 2, 128, 128, 128, false, true},
                               {3, 1, 96, 80, 96, false, true},   {9, 3, 64, 64, 64, false, false},
                               {40, 2, 32, 32, 16, false, true},  {2, 2, 16, 48, 16, true, false},
                               {2, 1, 256, 256, 64, false, false}};
  for (const Types& types : std::span(kTypes).first(brief ? 2 : std::size(kTypes))) {
    for (const Shape& shape : std::span(kShapes).first(brief ? 3 : std::size(kShapes)))
      check_shape(shape, types, cpu, cuda, tally);
  }
  const CacheGroup nibbles = {CacheGroup::Kind::paged, 1, 1, 16, 16, 8, CacheType::q4};
  const auto refused = cuda.open({&nibbles, 1});
  tally.expect(!refused && refused.error().code == "unsupported_cache_type", "q4 is refused", "");
}

}  // namespace martlet::gpu
