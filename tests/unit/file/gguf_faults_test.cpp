// Hostile files: each is refused with the code that the fault list names, and costs next to nothing.

#include <gtest/gtest.h>

#include <ctime>
#include <random>
#include <vector>

#include "file/allocations.h"
#include "file/gguf_bytes.h"
#include "tensor/dequantize.h"

namespace martlet {
namespace {

constexpr uint64_t kHuge = uint64_t{1} << 63;
constexpr uint32_t kU32 = 4, kI32 = 5, kBool = 7, kText = 8, kList = 9;  // metadata type ids
constexpr uint32_t kF32 = 0, kQ8_0 = 8, kI8 = 24, kF64 = 28;             // tensor format ids

RawGguf raw() {
  return {};
}

struct Case {
  const char* name;
  std::string file;
  const char* code;
};

void expect_refused(const std::vector<Case>& cases) {
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    const size_t allocated = allocated_bytes();
    const clock_t begin = std::clock();
    const auto model = parse(test.file);
    const double milliseconds = 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    EXPECT_LE(milliseconds, 100);
    EXPECT_LE(allocated_bytes() - allocated, size_t{64} << 20);
    ASSERT_FALSE(model) << "the file opens";
    EXPECT_EQ(model.error().code, test.code) << model.error().line();
    EXPECT_EQ(model.error().kind, ErrorKind::model);
    EXPECT_EQ(model.error().where.rfind("test.gguf@", 0), 0u) << model.error().where;
  }
}

TEST(GgufFaults, A1_Header) {
  std::string magic = small_model(), swapped = small_model();
  magic[3] = 'X';
  std::swap(swapped[4], swapped[7]);
  const auto version = [](uint32_t v) { return raw().header(0, 0, v).bytes; };
  expect_refused({
      {"0 bytes", "", "bad_header"},
      {"3 bytes", "GGU", "bad_header"},
      {"23 bytes", small_model().substr(0, 23), "bad_header"},
      {"magic", magic, "bad_header"},
      {"version 0", version(0), "bad_header"},
      {"version 1", version(1), "bad_header"},
      {"version 999", version(999), "bad_header"},
      {"big-endian", swapped, "bad_header"},
  });
}

TEST(GgufFaults, A2_Counts) {
  const auto key = [](uint32_t type) { return raw().header(0, 1).text("k").number(type); };
  expect_refused({
      {"keys", raw().header(0, kHuge).data(100).bytes, "count_exceeds_file"},
      {"tensors", raw().header(kHuge, 0).data(100).bytes, "count_exceeds_file"},
      {"key length", raw().header(0, 1).number(kHuge).data(100).bytes, "count_exceeds_file"},
      {"string length", key(kText).number(kHuge).data(100).bytes, "count_exceeds_file"},
      {"number array", key(kList).number(kU32).number(kHuge).data(100).bytes, "count_exceeds_file"},
      {"string array", key(kList).number(kText).number(kHuge).data(100).bytes, "count_exceeds_file"},
      // 2^62 elements of four bytes: the product is 0 in 64 bits.
      {"product", key(kList).number(kU32).number(uint64_t{1} << 62).data(100).bytes, "count_exceeds_file"},
      {"string in an array", key(kList).number(kText).number(uint64_t{1}).number(kHuge).data(100).bytes,
       "count_exceeds_file"},
      {"tensor name", raw().header(1, 0).number(kHuge).data(100).bytes, "count_exceeds_file"},
  });
}

// Counts that the file could hold, but no model has: memory stays bounded.
TEST(GgufFaults, A2_EntriesAreBounded) {
  expect_refused({
      {"keys", raw().header(0, 100'000).data(2 << 20).bytes, "too_many_entries"},
      {"tensors", raw().header(200'000, 0).data(8 << 20).bytes, "too_many_entries"},
      {"strings",
       raw().header(0, 1).text("k").number(kList).number(kText).number(uint64_t{3'000'000}).data(24 << 20).bytes,
       "too_many_entries"},
  });
}

TEST(GgufFaults, A3_Names) {
  const auto twice = [](std::string_view a, std::string_view b) {
    return raw()
        .header(0, 3)
        .text(a)
        .number(kU32)
        .number(1u)
        .text("between")
        .number(kU32)
        .number(1u)
        .text(b)
        .number(kU32)
        .number(2u)
        .bytes;
  };
  expect_refused({
      {"key", twice("same", "same"), "duplicate_name"},
      {"empty key", twice("", "b"), "duplicate_name"},
      {"tensor", raw().header(2, 0).tensor("t", {8}, kF32, 0).tensor("t", {8}, kF32, 32).data(64).bytes,
       "duplicate_name"},
  });
}

TEST(GgufFaults, A4_TensorsAndValues) {
  const std::string name(64, 'n');
  const auto key = [](uint32_t type) { return raw().header(0, 1).text("k").number(type); };
  const auto dimensions = [](uint32_t n) { return raw().header(1, 0).text("t").number(n).data(200).bytes; };
  expect_refused({
      {"5 dimensions", dimensions(5), "bad_tensor"},
      {"2^32 - 1 dimensions", dimensions(0xffffffff), "bad_tensor"},
      {"64-byte name", raw().header(1, 0).tensor(name, {8}, kF32, 0).data(64).bytes, "bad_tensor"},
      {"no name", raw().header(1, 0).tensor("", {8}, kF32, 0).data(64).bytes, "bad_tensor"},
      {"format 4", raw().header(1, 0).tensor("t", {32}, 4, 0).data(640).bytes, "bad_tensor"},
      {"format 2^32 - 1", raw().header(1, 0).tensor("t", {32}, 0xffffffff, 0).data(640).bytes, "bad_tensor"},
      {"value type 13", key(13).data(64).bytes, "bad_kv"},
      {"value type 2^32 - 1", key(0xffffffff).data(64).bytes, "bad_kv"},
      {"element type 13", key(kList).number(13u).number(uint64_t{1}).data(64).bytes, "bad_kv"},
      {"nested array", key(kList).number(kList).number(uint64_t{1}).data(64).bytes, "bad_kv"},
      {"boolean 2", key(kBool).number(uint8_t{2}).data(64).bytes, "bad_kv"},
      {"boolean 2 in an array", key(kList).number(kBool).number(uint64_t{1}).number(uint8_t{2}).data(64).bytes,
       "bad_kv"},
  });
  EXPECT_EQ(code_of(raw().header(1, 0).tensor(name.substr(1), {8}, kF32, 0).data(64).bytes), "ok")
      << "63 bytes are allowed";
}

TEST(GgufFaults, A5_Alignment) {
  const auto aligned = [](uint32_t type, uint32_t value) {
    return raw().header(0, 1).text("general.alignment").number(type).number(value).data(64).bytes;
  };
  expect_refused({
      {"0", aligned(kU32, 0), "bad_alignment"},
      {"13", aligned(kU32, 13), "bad_alignment"},
      {"4", aligned(kU32, 4), "bad_alignment"},
      {"i32", aligned(kI32, 32), "bad_alignment"},
      {"2^31", aligned(kU32, 1u << 31), "bad_alignment"},
      {"text", raw().header(0, 1).text("general.alignment").number(kText).text("32").bytes, "bad_alignment"},
  });
  EXPECT_EQ(code_of(aligned(kU32, 64)), "ok");
}

TEST(GgufFaults, A6_Sizes) {
  constexpr int64_t kHalf = int64_t{1} << 62;
  const auto one = [](const std::vector<int64_t>& shape, uint32_t format) {
    return raw().header(1, 0).tensor("t", shape, format, 0).data(64).bytes;
  };
  RawGguf sum = raw().header(3, 0);
  for (const char* name : {"a", "b", "c"}) sum.tensor(name, {kHalf / 2}, kI8, 0);
  expect_refused({
      {"elements", one({int64_t{1} << 32, int64_t{1} << 32}, kF32), "size_overflow"},
      {"elements of four dimensions", one({INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}, kI8), "size_overflow"},
      {"bytes", one({int64_t{1} << 61}, kF64), "size_overflow"},
      {"padding", one({kHalf - 1}, kI8), "size_overflow"},
      {"padding at 2^63", one({INT64_MAX}, kI8), "size_overflow"},
      {"sum", sum.data(64).bytes, "size_overflow"},
      {"sum and header", one({kHalf - 32}, kI8), "size_overflow"},
  });
}

TEST(GgufFaults, A7_Shapes) {
  const auto one = [](const std::vector<int64_t>& shape, uint32_t format) {
    return raw().header(1, 0).tensor("t", shape, format, 0).data(64).bytes;
  };
  expect_refused({
      {"second dimension 0", one({8, 0}, kF32), "bad_shape"},
      {"first dimension 0", one({0}, kF32), "bad_shape"},
      {"negative", one({8, -1}, kF32), "bad_shape"},
      {"lowest", one({INT64_MIN, INT64_MIN}, kF32), "bad_shape"},
      {"part of a block", one({33}, kQ8_0), "bad_shape"},
  });
}

TEST(GgufFaults, A8_Places) {
  const auto two = [](uint64_t first, uint64_t second) {
    return raw().header(2, 0).tensor("a", {8}, kF32, first).tensor("b", {16}, kF32, second).data(128).bytes;
  };
  EXPECT_EQ(code_of(two(0, 32)), "ok");
  EXPECT_EQ(code_of(two(96, 0)), "ok") << "any order, with gaps";
  expect_refused({
      {"unaligned", two(0, 33), "tensor_out_of_file"},
      {"the same place", two(0, 0), "tensor_out_of_file"},
      {"overlap", two(32, 0), "tensor_out_of_file"},
      {"end past the file", two(0, 96), "tensor_out_of_file"},
      {"start past the file", two(0, 128 + 32), "tensor_out_of_file"},
      {"offset 2^64 - 32", two(0, -uint64_t{32}), "tensor_out_of_file"},
      {"offset 2^63", two(0, kHuge), "tensor_out_of_file"},
  });
}

TEST(GgufFaults, A8_CutFiles) {
  gguf::Writer writer;
  writer.add("general.architecture", "llama");
  const std::string_view tokens[] = {"the", "quick", "brown", "fox", "jumps"};
  writer.add_array("tokenizer.ggml.tokens", tokens);
  const int64_t shape[] = {32, 16};
  writer.add_tensor("a", Format::F32, shape);
  writer.add_tensor("b", Format::Q8_0, shape);
  const std::string file = written(writer, {std::string(2048, 'a'), std::string(544, 'b')});
  ASSERT_EQ(code_of(file), "ok");
  for (size_t i = 1; i <= 64; ++i) {
    const size_t size = i == 64 ? file.size() - 1 : file.size() * i / 64;
    ASSERT_GE(size, 24u);
    expect_refused({{std::to_string(size).c_str(), file.substr(0, size), "tensor_out_of_file"}});
  }
}

// Uses everything that an opened file offers, so that a sanitizer sees what a wrong size would do.
void touch(const ModelFile& model) {
  for (const auto& [key, value] : model.metadata()) {
    EXPECT_EQ(model.find(key), &value);
    if (const auto* numbers = std::get_if<NumberArray>(&value)) {
      for (size_t i = 0; i < numbers->size; ++i) (void)numbers->integer(i), (void)numbers->number(i);
    }
  }
  std::vector<float> row;
  for (const NamedTensor& tensor : model.tensors()) {
    EXPECT_EQ(model.tensor(tensor.name), &tensor.view);
    if (!info(tensor.view.format).computes) continue;
    row.resize(static_cast<size_t>(tensor.view.columns()));
    for (int64_t r = 0; r < tensor.view.rows(); ++r) dequantize_row(tensor.view, r, row);
  }
}

TEST(GgufFaults, A11_FlippedHeaderBytes) {
  const std::string file = small_model();
  touch(**parse(file));
  const size_t header = file.size() - 64 - 128 - 64;  // what is before the three padded tensors
  std::mt19937 random(11);
  int opened = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string flipped = file;
    for (uint32_t flips = 1 + random() % 3; flips > 0; --flips)
      flipped[random() % header] ^= static_cast<char>(1 + random() % 255);
    const auto model = parse(flipped);
    if (model) {
      ++opened;
      touch(**model);
    } else {
      ASSERT_EQ(model.error().kind, ErrorKind::model) << model.error().line();
    }
  }
  EXPECT_GT(opened, 100) << "most flips should go deeper than the magic";
  EXPECT_LT(opened, 900);
}

}  // namespace
}  // namespace martlet
