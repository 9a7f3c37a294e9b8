// The backend as a model sees it: operators against plain computations, steps against the same steps cut otherwise.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "backend/cpu/operators.h"
#include "base/mapped_file.h"
#include "step.h"
#include "tensor/dequantize.h"

namespace martlet::cpu {
namespace {

constexpr int32_t kWidth = 64, kFfn = 96, kVocabulary = 300, kHeads = 4, kKeyHeads = 2, kHeadSize = 16;

// Random blocks of a format whose scales, the first `scales` halves of each block, are small.
std::vector<std::byte> random_blocks(Format format, int64_t columns, int64_t rows, int scales, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> out(static_cast<size_t>(bytes_of(format, columns) * rows));
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  for (size_t at = 0; at < out.size(); at += info(format).block_bytes) {
    for (int s = 0; s < scales; ++s) {
      const uint16_t scale = float_to_half(0.02f * static_cast<float>(random() % 100) / 100 - 0.01f);
      std::memcpy(&out[at + static_cast<size_t>(s) * 2], &scale, 2);
    }
  }
  return out;
}

std::vector<uint16_t> halves(const std::vector<float>& values) {
  std::vector<uint16_t> out;
  for (float x : values) out.push_back(float_to_half(x));
  return out;
}

template <class T>
TensorView view(const std::vector<T>& data, Format format, int64_t columns, int64_t rows) {
  return {reinterpret_cast<const std::byte*>(data.data()), format, {columns, rows, 1, 1}};
}

// A decoder of two layers; formats of several kinds, stacked ones included.
class TinyModel {
 public:
  TinyModel(const Level* level, int threads, bool f32_activations = false)
      : backend_(make_backend(level, threads, f32_activations)) {
    const CacheGroup group = {CacheGroup::Kind::paged,
                              2,
                              kKeyHeads,
                              kHeadSize,
                              kHeadSize,
                              64,
                              f32_activations ? CacheType::f32 : CacheType::f16};
    model_ = *backend_->open({&group, 1});
    embedding_ = upload({view(table_, Format::F32, kWidth, kVocabulary)});
    norm_ = {Norm::Kind::rms, upload({view(norm_values_, Format::F32, kWidth, 1)}), 1e-5f};
    const TensorView bias[] = {view(bias_, Format::F32, 64, 1), view(bias_, Format::F32, 32, 1),
                               view(bias_, Format::F32, 32, 1)};
    qkv_ = upload(
        {view(q_, Format::Q8_0, kWidth, 64), view(k_, Format::Q4_1, kWidth, 32), view(v_, Format::F16, kWidth, 32)},
        {bias});
    output_ = upload({view(o_, Format::Q4_1, 64, kWidth)});
    gate_up_ = upload({view(gate_, Format::Q4_1, kWidth, kFfn), view(up_, Format::Q8_0, kWidth, kFfn)});
    down_ = upload({view(down_values_, Format::Q8_0, kFfn, kWidth)});
    head_ = upload({view(head_values_, Format::Q8_0, kWidth, kVocabulary)});
    attention_ = {0, 0, kHeads, kKeyHeads, kHeadSize, kHeadSize, 0.25f};
    attention_.rope_frequencies = upload({view(frequencies_, Format::F32, kHeadSize / 2, 1)});
  }

  Outputs forward() {
    Backend& b = *backend_;
    Tensor x = b.embed(embedding_);
    for (int32_t layer = 0; layer < 2; ++layer) {
      attention_.layer = layer;
      x = b.linear(b.attend(b.linear(b.norm(x, norm_), qkv_), attention_), output_, &x);
      x = b.linear(b.activate(b.linear(b.norm(x, norm_), gate_up_), Activation::silu_gated), down_, &x);
    }
    x = b.norm(b.gather_outputs(x), norm_);
    return {b.linear(x, head_), x};
  }

  // Logits of the batch's outputs.
  std::vector<float> run(const Rows& rows) {
    Outputs out;
    run_step(*backend_, model_, rows, [&] { return out = forward(); });
    std::vector<float> logits(rows.outputs.size() * kVocabulary);
    backend_->read(out.logits, logits);
    return logits;
  }

  Backend& backend() { return *backend_; }
  ModelId model() const { return model_; }

 private:
  Weight upload(std::vector<TensorView> stacked, const UploadOptions& options = {}) {
    auto weight = backend_->upload(model_, stacked, options);
    EXPECT_TRUE(weight) << weight.error().line();
    return *weight;
  }

  const std::vector<float> table_ = random_values(kWidth * kVocabulary, 1);
  const std::vector<float> norm_values_ = random_values(kWidth, 2);
  const std::vector<float> bias_ = random_values(64, 3),
                           frequencies_ = {1, 0.5f, 0.2f, 0.1f, 0.05f, 0.02f, 0.01f, 0.001f};
  const std::vector<std::byte> q_ = random_blocks(Format::Q8_0, kWidth, 64, 1, 4);
  const std::vector<std::byte> k_ = random_blocks(Format::Q4_1, kWidth, 32, 2, 5);
  const std::vector<uint16_t> v_ = halves(random_values(kWidth * 32, 6));
  const std::vector<std::byte> o_ = random_blocks(Format::Q4_1, 64, kWidth, 2, 7);
  const std::vector<std::byte> gate_ = random_blocks(Format::Q4_1, kWidth, kFfn, 2, 8);
  const std::vector<std::byte> up_ = random_blocks(Format::Q8_0, kWidth, kFfn, 1, 9);
  const std::vector<std::byte> down_values_ = random_blocks(Format::Q8_0, kFfn, kWidth, 1, 10);
  const std::vector<std::byte> head_values_ = random_blocks(Format::Q8_0, kWidth, kVocabulary, 1, 11);
  std::unique_ptr<Backend> backend_;
  ModelId model_{};
  Weight embedding_, qkv_, output_, gate_up_, down_, head_;
  Norm norm_;
  Attention attention_;
};

std::vector<Token> tokens_of(int s, int32_t first, int32_t count) {
  std::vector<Token> out;
  for (int32_t i = first; i < first + count; ++i) out.push_back((s * 37 + i * 11 + i * i) % kVocabulary);
  return out;
}
std::vector<Page> pages_of(int s) {
  return {s * 4 + 2, s * 4, s * 4 + 3, s * 4 + 1};
}

Rows rows_of(int s, int32_t first, int32_t count) {
  Rows rows;
  rows.add(tokens_of(s, first, count), first, pages_of(s));
  return rows;
}

class LevelOf : public testing::TestWithParam<const Level*> {};

TEST_P(LevelOf, SameBitsAsScalarInAnyBatch) {
  const Level* level = GetParam();
  if (!level->available()) GTEST_SKIP() << "this processor lacks " << level->name;
  constexpr int32_t kLength = 100;
  std::vector<std::vector<float>> expected;
  for (int s = 0; s < 8; ++s) expected.push_back(TinyModel(levels()[0], 1).run(rows_of(s, 0, kLength)));
  for (int threads : {1, 3}) {
    SCOPED_TRACE(threads);
    TinyModel model(level, threads);
    std::vector<int32_t> done(8, 0);
    std::mt19937 random(5);
    while (*std::min_element(done.begin(), done.end()) < kLength) {
      Rows rows;
      std::vector<std::pair<int, int32_t>> at;  // sequence and position of each row
      for (int s = 0; s < 8; ++s) {
        const int32_t count = std::min<int32_t>(kLength - done[s], random() % 3 == 0 ? random() % 30 : 1);
        if (count == 0) continue;
        rows.add(tokens_of(s, done[s], count), done[s], pages_of(s));
        for (int32_t i = 0; i < count; ++i) at.emplace_back(s, done[s]++);
      }
      const std::vector<float> logits = model.run(rows);
      for (size_t r = 0; r < at.size(); ++r) {
        const float* row = &expected[static_cast<size_t>(at[r].first)][static_cast<size_t>(at[r].second) * kVocabulary];
        ASSERT_EQ(std::memcmp(row, &logits[r * kVocabulary], kVocabulary * sizeof(float)), 0)
            << "sequence " << at[r].first << " position " << at[r].second;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(CpuBackend, LevelOf, testing::ValuesIn(levels().begin(), levels().end()),
                         [](const auto& test) { return std::string(test.param->name); });

TEST(CpuBackend, EightBitActivationsStayNearExactOnes) {
  const auto exact = TinyModel(levels()[0], 2, true).run(rows_of(0, 0, 50));
  const auto fast = TinyModel(levels()[0], 2).run(rows_of(0, 0, 50));
  double error = 0, size = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    error += (exact[i] - fast[i]) * (exact[i] - fast[i]);
    size += exact[i] * exact[i];
  }
  EXPECT_LT(std::sqrt(error / size), 0.06);
  EXPECT_GT(error, 0);
}

// Every operator once, with activations as they are, against loops.
TEST(CpuBackend, OperatorsMatchPlainLoops) {
  auto backend = make_backend(available_levels().back(), 2, true);
  const CacheGroup group = {CacheGroup::Kind::paged, 1, 1, 16, 16, 1};
  const ModelId model = *backend->open({&group, 1});
  const auto table = random_values(32 * 10, 1), weight = random_values(32, 2), bias = random_values(40, 3);
  const auto matrix = random_values(32 * 40, 4), square = random_values(20 * 32, 5);
  const auto upload = [&](const std::vector<float>& values, int64_t columns, const UploadOptions& options = {}) {
    const TensorView v = view_of(values, columns);
    return *backend->upload(model, {&v, 1}, options);
  };
  const TensorView bias_view = view_of(bias, 40);
  const Weight embedding = upload(table, 32), norm = upload(weight, 32), wide = upload(matrix, 32, {{&bias_view, 1}}),
               back = upload(square, 20);
  Rows rows;
  rows.add(std::vector<Token>{3, 9, 0}, 0, std::vector<Page>{0});
  rows.outputs = {0, 2};
  run_step(*backend, model, rows, [&] {
    const Tensor x = backend->embed(embedding);
    const Tensor normed = backend->norm(x, {Norm::Kind::rms, norm, 1e-6f});
    const Tensor hidden = backend->linear(normed, wide);
    const Tensor active = backend->activate(hidden, Activation::silu_gated);
    const Tensor out = backend->gather_outputs(backend->linear(active, back, &x));
    std::vector<float> got(2 * 32);
    backend->read(out, got);
    for (size_t o = 0; o < 2; ++o) {
      const float* in = &table[o == 0 ? 3 * 32 : 0];
      double squares = 0;
      for (int i = 0; i < 32; ++i) squares += in[i] * in[i];
      double h[40], a[20];
      for (int n = 0; n < 40; ++n) {
        h[n] = bias[n];
        for (int i = 0; i < 32; ++i) h[n] += in[i] / std::sqrt(squares / 32 + 1e-6) * weight[i] * matrix[n * 32 + i];
      }
      for (int n = 0; n < 20; ++n) a[n] = h[n] / (1 + std::exp(-h[n])) * h[n + 20];
      for (int i = 0; i < 32; ++i) {
        double y = in[i];
        for (int n = 0; n < 20; ++n) y += a[n] * square[i * 20 + n];
        EXPECT_NEAR(got[o * 32 + i], y, 1e-3 * (1 + std::abs(y)));
      }
    }
    return Outputs{out, out};
  });
}

TEST(CpuBackend, ChoosesWhereTheLogitsAre) {
  TinyModel model(available_levels().back(), 2);
  const Rows rows = rows_of(1, 0, 70);  // more outputs than logits are held at once
  const std::vector<float> logits = model.run(rows);
  std::vector<Choice> choices(70, {.sampling = {.temperature = 0}, .top = 2});
  choices[3] = {.score = 17, .top = 0};
  const auto chosen = run_step(
      model.backend(), model.model(), rows, [&] { return model.forward(); }, choices);
  for (size_t r = 0; r < 70; ++r) {
    const float* row = &logits[r * kVocabulary];
    EXPECT_EQ(chosen[r].token, r == 3 ? 17 : std::max_element(row, row + kVocabulary) - row);
    double sum = 0;
    for (int i = 0; i < kVocabulary; ++i) sum += std::exp(double{row[i]});
    EXPECT_NEAR(chosen[r].logprob, row[chosen[r].token] - std::log(sum), 1e-4);
  }

  // The next step's token is the one that output 5 chose.
  Rows next;
  next.add(std::vector<Token>{-1 - 5}, 70, pages_of(1));
  const auto by_reference = model.run(next);
  Rows same = next;
  same.tokens = {chosen[5].token};
  EXPECT_EQ(model.run(same), by_reference);
}

TEST(CpuBackendFaults, D14_NaNFailsItsOwnRowOnly) {
  auto backend = make_backend(available_levels().back(), 2);
  const CacheGroup group = {CacheGroup::Kind::paged, 1, 1, 16, 16, 1};
  const ModelId model = *backend->open({&group, 1});
  auto table = random_values(32 * 4, 1);
  table[32 + 7] = std::nanf("");
  const auto head = random_values(32 * 50, 2);
  const TensorView views[] = {view_of(table, 32), view_of(head, 32)};
  const Weight embedding = *backend->upload(model, {&views[0], 1}), matrix = *backend->upload(model, {&views[1], 1});
  Rows rows;
  rows.add(std::vector<Token>{0, 1, 2}, 0, std::vector<Page>{0});
  const auto chosen = run_step(*backend, model, rows, [&] {
    const Tensor x = backend->gather_outputs(backend->embed(embedding));
    return Outputs{backend->linear(x, matrix), x};
  });
  EXPECT_FALSE(chosen[0].numeric_error);
  EXPECT_TRUE(chosen[1].numeric_error);
  EXPECT_FALSE(chosen[2].numeric_error);
}

TEST(CpuBackend, StepsStayInsideTheWorkspace) {
  TinyModel model(available_levels().back(), 2);
  auto& backend = static_cast<CpuBackend&>(model.backend());
  int64_t after_largest = 0;
  for (int32_t rows : {1, 100, 3, 100, 64, 1, 100}) {
    model.run(rows_of(0, 0, rows));
    if (rows == 100 && after_largest == 0) after_largest = backend.workspace_used();
  }
  EXPECT_EQ(backend.workspace_used(), after_largest);
  EXPECT_LE(after_largest, backend.workspace_bytes({.rows = 100}, {.residual = kWidth,
                                                                   .projected = (kHeads + 2 * kKeyHeads) * kHeadSize,
                                                                   .attended = kHeads * kHeadSize,
                                                                   .network = kFfn,
                                                                   .vocabulary = kVocabulary}));
}

TEST(CpuBackend, RefusesWhatItCannotHold) {
  auto backend = make_backend(levels()[0], 1);
  CacheGroup group = {CacheGroup::Kind::paged, 1000, 1000, 256, 256, std::numeric_limits<int32_t>::max()};
  EXPECT_EQ(backend->open({&group, 1}).error().kind, ErrorKind::memory);
  group = {CacheGroup::Kind::paged, 1, 1, 16, 20, 1};
  EXPECT_EQ(backend->open({&group, 1}).error().code, "unsupported_head_size");
  group.value_size = 16;
  const ModelId model = *backend->open({&group, 1});
  const std::vector<std::byte> bytes(4096);
  const TensorView unknown = view(bytes, Format::IQ2_XXS, 256, 2);
  const auto refused = backend->upload(model, {&unknown, 1});
  EXPECT_EQ(refused.error().code, "unsupported_format");
  EXPECT_NE(refused.error().text.find("IQ2_XXS"), std::string::npos);
  const TensorView uneven[] = {view(bytes, Format::F32, 32, 2), view(bytes, Format::F32, 64, 2)};
  EXPECT_EQ(backend->upload(model, uneven).error().code, "bad_tensor");
  const TensorView cut = view(bytes, Format::Q4_0, 40, 1);
  EXPECT_EQ(backend->upload(model, {&cut, 1}).error().code, "bad_tensor");
}

// A step on a file that was cut short ends, and the file says that nothing from it can be believed.
TEST(CpuBackendFaults, A12_ModelFileCutShort) {
  guard_mapped_files();
  const std::string path = testing::TempDir() + "martlet_cut_model_" + std::to_string(getpid());
  const auto values = random_values(32 * 1024, 1);
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(values.data()), 32 * 1024 * 4);
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file && truncate(path.c_str(), 0) == 0);
  auto backend = make_backend(levels()[0], 1);
  const CacheGroup group = {CacheGroup::Kind::paged, 1, 1, 16, 16, 1};
  const ModelId model = *backend->open({&group, 1});
  const TensorView table = {(*file)->bytes().data(), Format::F32, {32, 1024, 1, 1}};
  const Weight embedding = *backend->upload(model, {&table, 1});
  const Token token = 500;
  const int32_t position = 0, starts[] = {0, 1}, length = 1;
  const Batch batch = {
      .tokens = {&token, 1}, .positions = {&position, 1}, .starts = starts, .context_lengths = {&length, 1}};
  const Ticket ticket = backend->submit(model, batch, {}, [&] {
    const Tensor x = backend->embed(embedding);
    return Outputs{x, x};
  });
  EXPECT_TRUE(backend->wait(ticket, {}, {}));
  EXPECT_FALSE((*file)->unchanged());
  std::remove(path.c_str());
}

TEST(CpuBackend, RefusesACacheOfRecurrentStates) {
  const auto backend = make_backend(available_levels().back(), 1);
  const CacheGroup groups[] = {{CacheGroup::Kind::paged, 1, 1, 16, 16, 4},
                               {CacheGroup::Kind::recurrent, 1, 1, 16, 16, 4}};
  EXPECT_TRUE(backend->open({groups, 1}));
  const auto refused = backend->open(groups);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "unsupported_cache");
}

}  // namespace
}  // namespace martlet::cpu
