// Attention against a plain computation in doubles, and the promise that a row's result has the same bits however the
// work around it is cut.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "attention_checks.h"
#include "backend/cpu/paged_cache.h"
#include "step.h"

namespace martlet::cpu {
namespace {

struct Shape {
  int32_t heads, kv_heads, key_size, value_size;
  bool interleaved = false, normed = false;
  int32_t rotated = -1;  // -1: all
};

constexpr int32_t kLength = 600;  // tokens of a sequence: three spans, the last one ragged
constexpr float kMagnitude = 1.1f;

// A model of one attention layer: its tokens are rows of a table that holds q, k and v.
class AttentionModel {
 public:
  AttentionModel(const Shape& shape, const Level* level, int threads, int32_t layers = 1,
                 CacheType type = CacheType::f16)
      : shape_(shape), type_(type), backend_(make_backend(level, threads)) {
    const CacheGroup group = {
        CacheGroup::Kind::paged, layers, shape.kv_heads, shape.key_size, shape.value_size, 200, type};
    auto model = backend_->open({&group, 1});
    EXPECT_TRUE(model);
    model_ = *model;
    columns_ = shape.heads * shape.key_size + shape.kv_heads * (shape.key_size + shape.value_size);
    table_values_ = random_values(static_cast<size_t>(columns_ * kLength), 1);
    frequency_values_.resize(static_cast<size_t>(rotated() / 2));
    for (size_t i = 0; i < frequency_values_.size(); ++i)
      frequency_values_[i] = std::pow(10'000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(rotated()));
    q_norm_values_ = random_values(static_cast<size_t>(shape.key_size), 2);
    k_norm_values_ = random_values(static_cast<size_t>(shape.key_size), 3);
    table_ = upload(table_values_, columns_);
    attention_ = {0,
                  0,
                  shape.heads,
                  shape.kv_heads,
                  shape.key_size,
                  shape.value_size,
                  1 / std::sqrt(static_cast<float>(shape.key_size))};
    if (rotated() > 0) attention_.rope_frequencies = upload(frequency_values_, rotated() / 2);
    attention_.rope_magnitude = kMagnitude;
    attention_.rope_interleaved = shape.interleaved;
    if (shape.normed) {
      attention_.q_norm = {Norm::Kind::rms, upload(q_norm_values_, shape.key_size), 1e-5f};
      attention_.k_norm = {Norm::Kind::rms, upload(k_norm_values_, shape.key_size), 1e-6f};
    }
  }

  // Attention of every row of the batch, in order.
  std::vector<float> run(const Rows& rows) {
    std::vector<float> out(rows.tokens.size() * static_cast<size_t>(shape_.heads * shape_.value_size));
    run_step(*backend_, model_, rows, [&] {
      const Tensor x = backend_->attend(backend_->embed(table_), attention_);
      backend_->read(x, out);
      return Outputs{x, x};
    });
    return out;
  }

  std::vector<double> expected(const std::vector<Token>& tokens, int32_t position) const {
    std::vector<double> out;
    for (int32_t h = 0; h < shape_.heads; ++h) {
      const int32_t kv = h / (shape_.heads / shape_.kv_heads);
      const auto q = head(tokens[static_cast<size_t>(position)], h * shape_.key_size, position, q_norm_values_, 1e-5);
      std::vector<double> scores, sums(static_cast<size_t>(shape_.value_size));
      double total = 0, largest = -1e300;
      for (int32_t p = 0; p <= position; ++p) {
        const auto k = as_cached(type_, head(tokens[static_cast<size_t>(p)], (shape_.heads + kv) * shape_.key_size, p,
                                             k_norm_values_, 1e-6));
        double score = 0;
        for (size_t i = 0; i < q.size(); ++i) score += q[i] * k[i];
        scores.push_back(score / std::sqrt(shape_.key_size));
        largest = std::max(largest, scores.back());
      }
      for (int32_t p = 0; p <= position; ++p) {
        const double weight = std::exp(scores[static_cast<size_t>(p)] - largest);
        const float* from =
            &table_values_[static_cast<size_t>(tokens[static_cast<size_t>(p)] * columns_ + value_offset(kv))];
        const auto v = as_cached(type_, {from, from + shape_.value_size});
        for (size_t i = 0; i < sums.size(); ++i) sums[i] += weight * v[i];
        total += weight;
      }
      for (double sum : sums) out.push_back(sum / total);
    }
    return out;
  }

  Backend& backend() { return *backend_; }
  ModelId model() const { return model_; }

 private:
  int32_t rotated() const { return shape_.rotated < 0 ? shape_.key_size : shape_.rotated; }
  int32_t value_offset(int32_t kv) const {
    return (shape_.heads + shape_.kv_heads) * shape_.key_size + kv * shape_.value_size;
  }
  Weight upload(const std::vector<float>& values, int64_t columns) {
    const TensorView view = view_of(values, columns);
    auto weight = backend_->upload(model_, {&view, 1});
    EXPECT_TRUE(weight);
    return *weight;
  }
  std::vector<double> head(Token token, int32_t offset, int32_t position, const std::vector<float>& norm,
                           double epsilon) const {
    const float* from = &table_values_[static_cast<size_t>(token * columns_ + offset)];
    std::vector<double> x(from, from + shape_.key_size);
    if (shape_.normed) {
      double squares = 0;
      for (double v : x) squares += v * v;
      for (size_t i = 0; i < x.size(); ++i)
        x[i] *= norm[i] / std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
    }
    for (int32_t p = 0; p < rotated() / 2; ++p) {
      const auto a = static_cast<size_t>(shape_.interleaved ? 2 * p : p);
      const auto b = static_cast<size_t>(shape_.interleaved ? 2 * p + 1 : p + rotated() / 2);
      const double angle = double{frequency_values_[static_cast<size_t>(p)]} * position;
      const double first = x[a] * std::cos(angle) - x[b] * std::sin(angle);
      x[b] = kMagnitude * (x[b] * std::cos(angle) + x[a] * std::sin(angle));
      x[a] = kMagnitude * first;
    }
    return x;
  }

  Shape shape_;
  CacheType type_;
  std::unique_ptr<Backend> backend_;
  ModelId model_{};
  int32_t columns_ = 0;
  std::vector<float> table_values_, frequency_values_, q_norm_values_, k_norm_values_;
  Weight table_;
  Attention attention_;
};

// Sequence s: its tokens, and pages scattered over the pool.
std::vector<Token> sequence_tokens(int s) {
  std::mt19937 random(static_cast<uint32_t>(s) + 100);
  std::vector<Token> out(kLength);
  for (Token& token : out) token = static_cast<Token>(random() % kLength);
  return out;
}
std::vector<Page> sequence_pages(int s) {
  std::vector<Page> all(200), out;
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Page>(i);
  std::shuffle(all.begin(), all.end(), std::mt19937(7));
  return {all.begin() + s * 20, all.begin() + s * 20 + 20};
}
void add_rows(Rows& rows, int s, int32_t first, int32_t count) {
  const auto tokens = sequence_tokens(s);
  rows.add(std::span(tokens).subspan(static_cast<size_t>(first), static_cast<size_t>(count)), first, sequence_pages(s));
}

std::string describe(const Shape& s) {
  return std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + " heads of " + std::to_string(s.key_size) + "/" +
         std::to_string(s.value_size);
}

const Shape kShapes[] = {
    {4, 4, 32, 32},
    {9, 3, 64, 64, true},
    {14, 2, 64, 64, false, false},
    {8, 1, 80, 80, true, false, 32},
    {4, 2, 96, 96, false, true, 48},
    {16, 8, 128, 128, false, true},
    {2, 1, 256, 256, true, true},
    {6, 2, 64, 128, false, false, 0},
    {70, 1, 32, 32},  // more query heads on one key head than a tile takes
};

class AttentionOf : public testing::TestWithParam<CacheType> {};
INSTANTIATE_TEST_SUITE_P(CacheOf, AttentionOf,
                         testing::Values(CacheType::f32, CacheType::f16, CacheType::bf16, CacheType::q8, CacheType::q4),
                         [](const auto& type) { return std::string(name_of(type.param)); });

TEST_P(AttentionOf, MatchesDoubles) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(describe(shape));
    // All shapes for one type; of the others a small one and one whose heads no block divides.
    if (GetParam() != CacheType::f16 && shape.heads * shape.key_size != 128 && shape.key_size != 80) continue;
    AttentionModel model(shape, available_levels().back(), 2, 1, GetParam());
    Rows rows;
    add_rows(rows, 0, 0, 290);
    add_rows(rows, 1, 0, 45);
    const std::vector<float> out = model.run(rows);
    const size_t width = static_cast<size_t>(shape.heads * shape.value_size);
    const double tolerance = 10 * attention_tolerance(GetParam());  // rotations are not in doubles
    for (int32_t row : {0, 1, 31, 32, 200, 255, 256, 289}) {
      const auto expected = model.expected(sequence_tokens(0), row);
      for (size_t i = 0; i < width; ++i)
        ASSERT_NEAR(out[static_cast<size_t>(row) * width + i], expected[i], tolerance) << row << " " << i;
    }
    const auto expected = model.expected(sequence_tokens(1), 44);
    for (size_t i = 0; i < width; ++i) ASSERT_NEAR(out[334 * width + i], expected[i], tolerance) << i;
  }
}

TEST_P(AttentionOf, KernelsMatchDoublesAtEveryLevel) {
  for (const AttentionCase& c : attention_cases()) {
    if (c.type == GetParam()) {
      EXPECT_EQ(check_against_doubles(c), "");
    }
  }
}

TEST_P(AttentionOf, EncodesTheSameAtEveryLevel) {
  for (const Level* level : available_levels()) EXPECT_EQ(check_encoding(GetParam(), *level), "");
}

// Results of sequences 0 and 1, row after row: prefilled at once on the scalar level.
std::vector<float> whole(const Shape& shape, int s, int32_t count, CacheType type) {
  AttentionModel model(shape, levels()[0], 1, 1, type);
  std::vector<float> out;
  for (int32_t first = 0; first < count; first += 500) {
    Rows rows;
    add_rows(rows, s, first, std::min(500, count - first));
    const auto part = model.run(rows);
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

TEST_P(AttentionOf, SameBitsHoweverTheWorkIsCut) {
  for (const Shape& shape : {Shape{9, 3, 64, 64, true}, Shape{14, 2, 32, 32}, Shape{2, 2, 128, 128, false, true}}) {
    SCOPED_TRACE(describe(shape));
    // Types without scales are computed alike.
    const bool scaled = format_of(GetParam()).block > 0;
    if (GetParam() != CacheType::f16 && shape.heads != (scaled ? 9 : 14)) continue;
    const std::vector<float> one = whole(shape, 0, kLength, GetParam()), two = whole(shape, 1, kLength, GetParam());
    const size_t width = static_cast<size_t>(shape.heads * shape.value_size);
    for (const Level* level : available_levels()) {
      for (int threads = level == levels()[0] ? 4 : 1; threads <= 4; ++threads) {
        SCOPED_TRACE(std::string(level->name) + " " + std::to_string(threads));
        AttentionModel model(shape, level, threads, 1, GetParam());
        // Chunks that cross pages and spans anywhere, beside a second sequence that is a step behind, then one by one.
        const int32_t cuts[] = {0, 1, 34, 250, 257, 500, 590, 591, 592, 599, 600};
        for (size_t c = 0; c + 1 < std::size(cuts) + 1; ++c) {
          Rows rows;
          const bool first = c + 1 < std::size(cuts), second = c > 0;
          if (first) add_rows(rows, 0, cuts[c], cuts[c + 1] - cuts[c]);
          if (second) add_rows(rows, 1, cuts[c - 1], cuts[c] - cuts[c - 1]);
          const auto out = model.run(rows);
          size_t row = 0;
          const auto compare = [&](const std::vector<float>& expected, int32_t from, int32_t to) {
            for (int32_t p = from; p < to; ++p, ++row) {
              ASSERT_TRUE(
                  std::equal(&out[row * width], &out[row * width] + width, &expected[static_cast<size_t>(p) * width]))
                  << "position " << p;
            }
          };
          if (first) compare(one, cuts[c], cuts[c + 1]);
          if (second) compare(two, cuts[c - 1], cuts[c]);
        }
      }
    }
  }
}

// What lies in a page beyond a row's own position reaches no result, be it NaN.
TEST_P(AttentionOf, IgnoresWhatLiesBeyondThePosition) {
  const Shape shape = {6, 2, 64, 64};
  const std::vector<float> expected = whole(shape, 0, 40, GetParam());
  AttentionModel model(shape, available_levels().back(), 2, 1, GetParam());
  const std::vector<std::byte> nan(static_cast<size_t>(model.backend().page_bytes(model.model(), 0)), std::byte{0xff});
  for (Page page = 0; page < 200; ++page) model.backend().write_page(model.model(), 0, page, nan);
  std::vector<float> out;
  for (const auto& [first, count] : {std::pair{0, 5}, {5, 1}, {6, 34}}) {
    Rows rows;
    add_rows(rows, 0, first, count);
    const auto part = model.run(rows);
    out.insert(out.end(), part.begin(), part.end());
  }
  EXPECT_EQ(out, expected);
}

TEST_P(AttentionOf, CountsItsPagesExactly) {
  const auto [bits, block] = std::map<CacheType, std::pair<int64_t, int64_t>>{
      {CacheType::f32, {32, 0}},
      {CacheType::f16, {16, 0}},
      {CacheType::bf16, {16, 0}},
      {CacheType::q8, {8, 32}},
      {CacheType::q4, {4, 32}}}.at(GetParam());
  const auto bytes = [bits, block](int64_t size) {
    return kPageTokens * (size * bits / 8 + (block ? (size + block - 1) / block * 2 : 0));
  };
  const CacheGroup group = {CacheGroup::Kind::paged, 3, 5, 80, 64, 2, GetParam()};
  auto backend = make_backend(available_levels().back(), 1);
  const auto model = backend->open({&group, 1});
  ASSERT_TRUE(model);
  EXPECT_EQ(backend->cache_page_bytes(group), 3 * 5 * (bytes(80) + bytes(64)));
  EXPECT_EQ(backend->page_bytes(*model, 0), 3 * 5 * (bytes(80) + bytes(64)));
}

TEST_P(AttentionOf, PagesAreCopiedReadAndWritten) {
  const Shape shape = {6, 2, 64, 32};
  Rows all;
  add_rows(all, 0, 0, 100);
  const std::vector<float> expected = AttentionModel(shape, available_levels().back(), 1, 3, GetParam()).run(all);
  const size_t width = static_cast<size_t>(shape.heads * shape.value_size);
  const auto tokens = sequence_tokens(0);
  AttentionModel model(shape, available_levels().back(), 2, 3, GetParam());
  Rows prefix;
  add_rows(prefix, 0, 0, 70);
  model.run(prefix);

  // A second sequence shares two pages and the first six tokens of the third, which is copied.
  auto pages = sequence_pages(0);
  pages[2] = sequence_pages(5)[0];
  pages[3] = sequence_pages(5)[1];
  Rows rows;
  rows.add(std::span(tokens).subspan(70, 30), 70, pages);
  rows.copies = {{0, sequence_pages(0)[2], pages[2], 6}};
  const auto copied = model.run(rows);
  EXPECT_TRUE(std::equal(copied.begin(), copied.end(), &expected[70 * width]));

  // Saved, overwritten and restored somewhere else.
  std::vector<std::byte> saved(static_cast<size_t>(model.backend().page_bytes(model.model(), 0)));
  model.backend().read_page(model.model(), 0, pages[0], saved);
  model.backend().write_page(model.model(), 0, pages[0], std::vector<std::byte>(saved.size()));
  pages[0] = sequence_pages(5)[2];
  model.backend().write_page(model.model(), 0, pages[0], saved);
  Rows last;
  last.add(std::span(tokens).subspan(99, 1), 99, pages);
  const auto restored = model.run(last);
  EXPECT_TRUE(std::equal(restored.begin(), restored.end(), &expected[99 * width]));
}

}  // namespace
}  // namespace martlet::cpu
