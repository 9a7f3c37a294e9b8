#include <gtest/gtest.h>

#include <filesystem>

#include "file/gguf_bytes.h"
#include "file/gguf_reader.h"

namespace martlet {
namespace {

// `file` must outlive the model.
std::shared_ptr<const ModelFile> open(const std::string& file) {
  auto model = parse(file);
  EXPECT_TRUE(model) << model.error().line();
  return model ? *model : nullptr;
}

TEST(Gguf, ReadsMetadataOfEveryType) {
  const std::string file = small_model();
  const auto model = open(file);
  ASSERT_TRUE(model);
  EXPECT_EQ(model->architecture(), "llama");
  EXPECT_EQ(model->integer("a.u8"), 200);
  EXPECT_EQ(model->integer("a.i8"), -100);
  EXPECT_EQ(model->integer("a.u16"), 60000);
  EXPECT_EQ(model->integer("a.i16"), -30000);
  EXPECT_EQ(model->integer("a.u32"), 4000000000);
  EXPECT_EQ(model->integer("a.i32"), -2000000000);
  EXPECT_EQ(model->integer("a.i64"), -5000000000);
  EXPECT_EQ(model->number("a.f32"), 0.5);
  EXPECT_EQ(model->number("a.f64"), 1e-300);
  EXPECT_EQ(model->boolean("a.bool"), true);
  ASSERT_TRUE(model->strings("a.words"));
  EXPECT_EQ(*model->strings("a.words"), (StringArray{"one", "", "three", "\xf0\x9f\x90\xa6"}));
  ASSERT_TRUE(model->strings("a.nothing"));
  EXPECT_TRUE(model->strings("a.nothing")->empty());
}

TEST(Gguf, ConvertsOnlyWhatFits) {
  const std::string file = small_model();
  const auto model = open(file);
  ASSERT_TRUE(model);
  EXPECT_EQ(model->integer("a.u64"), std::nullopt) << "2^64 - 1 does not fit into int64_t";
  EXPECT_EQ(model->number("a.u64"), 0x1p64);
  EXPECT_EQ(model->number("a.i8"), -100.0);
  EXPECT_EQ(model->integer("a.f32"), std::nullopt) << "a float is not an integer";
  EXPECT_EQ(model->integer("a.bool"), std::nullopt);
  EXPECT_EQ(model->string("a.u8"), std::nullopt);
  EXPECT_EQ(model->boolean("a.u8"), std::nullopt);
  EXPECT_EQ(model->strings("a.numbers"), nullptr);
  EXPECT_EQ(model->numbers("a.words"), nullptr);
  EXPECT_EQ(model->find("absent"), nullptr);
  EXPECT_EQ(model->integer("absent"), std::nullopt);
}

TEST(Gguf, NumberArraysAreReadByIndex) {
  const std::string file = small_model();
  const auto model = open(file);
  ASSERT_TRUE(model);
  const NumberArray* numbers = model->numbers("a.numbers");
  ASSERT_TRUE(numbers);
  ASSERT_EQ(numbers->size, 3u);
  EXPECT_EQ(numbers->type, NumberArray::Type::i32);
  EXPECT_EQ(numbers->integer(1), -2);
  EXPECT_EQ(numbers->number(2), 3.0);
  const NumberArray* reals = model->numbers("a.reals");
  ASSERT_TRUE(reals);
  EXPECT_EQ(reals->integer(0), 1);
  EXPECT_EQ(reals->integer(1), INT64_MIN) << "clamped";
  EXPECT_EQ(reals->integer(2), 2);
  const NumberArray* flags = model->numbers("a.flags");
  ASSERT_TRUE(flags);
  EXPECT_EQ(flags->integer(0), 1);
  EXPECT_EQ(flags->integer(1), 0);
}

TEST(Gguf, TensorsAreViewsIntoTheFile) {
  for (const uint64_t alignment : {8u, 32u, 64u, 4096u}) {
    SCOPED_TRACE(alignment);
    const std::string file = small_model(alignment);
    const auto model = open(file);
    ASSERT_TRUE(model);
    ASSERT_EQ(model->tensors().size(), 3u);
    EXPECT_EQ(model->tensors()[1].name, "matrix");
    const TensorView* matrix = model->tensor("matrix");
    ASSERT_TRUE(matrix);
    EXPECT_EQ(matrix->format, Format::Q8_0);
    EXPECT_EQ(matrix->shape, (std::array<int64_t, 4>{32, 3, 1, 1}));
    EXPECT_EQ(matrix->bytes(), 3 * 34);
    const auto* begin = reinterpret_cast<const std::byte*>(file.data());
    EXPECT_EQ((matrix->data - begin) % static_cast<int64_t>(alignment), 0);
    EXPECT_EQ(matrix->data[0], std::byte{2});
    EXPECT_EQ(matrix->data[101], std::byte{2});
    EXPECT_EQ(model->tensor("plain")->data[19], std::byte{1});
    EXPECT_EQ(model->tensor("cube")->rows(), 6);
    EXPECT_EQ(model->tensor("absent"), nullptr);
  }
}

TEST(Gguf, ReadsVersionTwoLikeVersionThree) {
  std::string file = small_model();
  file[4] = 2;
  const auto model = open(file);
  ASSERT_TRUE(model);
  EXPECT_EQ(model->tensors().size(), 3u);
}

TEST(Gguf, AVocabularyAloneIsAModelFile) {
  gguf::Writer writer;
  const std::string_view tokens[] = {"a", "b"};
  writer.add_array("tokenizer.ggml.tokens", tokens);
  std::string file = written(writer, {});
  file.resize(24 + 8 + 21 + 4 + 4 + 8 + 9 + 9);  // no padding behind it either
  EXPECT_EQ(code_of(file), "ok");
}

TEST(Gguf, FormatsThatDoNotComputeOpenAndAreRefusedByName) {
  RawGguf file;
  file.header(1, 0).tensor("t", {256}, 16, 0).data(66);
  const auto model = open(file.bytes);
  ASSERT_TRUE(model);
  EXPECT_EQ(model->tensor("t")->format, Format::IQ2_XXS);
  const Error error = unsupported_format(model->tensor("t")->format, "test.gguf");
  EXPECT_EQ(error.code, "unsupported_format");
  EXPECT_NE(error.line().find("IQ2_XXS"), std::string::npos);
}

TEST(Gguf, TheSeedsOfTheFuzzerOpen) {
  size_t seeds = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/fuzz/corpus/gguf")) {
    if (entry.path().extension() != ".gguf") continue;  // what a fuzzer has added
    const auto model = ModelFile::open(entry.path().string());
    EXPECT_TRUE(model) << model.error().line();
    ++seeds;
  }
  EXPECT_GE(seeds, 3u);
}

TEST(Gguf, WriterPadsEveryTensor) {
  const std::string file = small_model(64);
  EXPECT_EQ(file.size() % 64, 0u);
}

}  // namespace
}  // namespace martlet
