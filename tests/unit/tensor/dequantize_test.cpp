#include "tensor/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

namespace martlet {
namespace {

struct Golden {
  std::vector<char> bytes;  // `blocks` blocks, then their values
  size_t blocks = 0;
  std::span<const std::byte> data() const { return std::as_bytes(std::span(bytes)); }
};

Golden load(const FormatInfo& format) {
  std::ifstream in("tests/golden/formats/" + std::string(format.name) + ".bin", std::ios::binary);
  Golden golden;
  golden.bytes.assign(std::istreambuf_iterator<char>(in), {});
  golden.blocks = golden.bytes.size() / (format.block_bytes + 4 * format.block_elements);
  return golden;
}

std::vector<const FormatInfo*> computing_formats() {
  std::vector<const FormatInfo*> out;
#define MARTLET_FORMAT(name, id, elements, bytes, computes) \
  if (computes) out.push_back(&info(Format::name));
#include "tensor/formats.def"
#undef MARTLET_FORMAT
  return out;
}

class DequantizeTest : public testing::TestWithParam<const FormatInfo*> {};

// Bit for bit: both sides round each product and each sum once, in the same order. The sign of a NaN is left open.
TEST_P(DequantizeTest, EqualsTheGoldenValues) {
  const FormatInfo& format = *GetParam();
  const Golden golden = load(format);
  ASSERT_GT(golden.blocks, 0u);
  const auto columns = static_cast<int64_t>(golden.blocks * format.block_elements);
  const TensorView tensor{golden.data().data(), format.format, {columns, 1, 1, 1}};
  std::vector<float> got(columns), want(columns);
  std::memcpy(want.data(), golden.data().data() + tensor.row_bytes(), columns * sizeof(float));
  dequantize_row(tensor, 0, got);
  for (int64_t i = 0; i < columns; ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
        << "element " << i << ": " << got[i] << " instead of " << want[i];
  }
}

TEST_P(DequantizeTest, ReadsTheRowAskedFor) {
  const FormatInfo& format = *GetParam();
  const Golden golden = load(format);
  const auto columns = static_cast<int64_t>(format.block_elements), rows = static_cast<int64_t>(golden.blocks);
  const TensorView one_row{golden.data().data(), format.format, {columns * rows, 1, 1, 1}};
  const TensorView matrix{golden.data().data(), format.format, {columns, rows, 1, 1}};
  std::vector<float> whole(columns * rows), row(columns);
  dequantize_row(one_row, 0, whole);
  for (int64_t r = 0; r < rows; ++r) {
    dequantize_row(matrix, r, row);
    ASSERT_EQ(std::memcmp(row.data(), whole.data() + r * columns, columns * sizeof(float)), 0) << "row " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, DequantizeTest, testing::ValuesIn(computing_formats()),
                         [](const auto& param) { return std::string(param.param->name); });

TEST(Formats, GgufIdsAreUniqueAndFoundAgain) {
#define MARTLET_FORMAT(name, id, elements, bytes, computes) EXPECT_EQ(format_from_gguf(id), Format::name);
#include "tensor/formats.def"
#undef MARTLET_FORMAT
  EXPECT_EQ(format_from_gguf(4), std::nullopt);
  EXPECT_EQ(format_from_gguf(0xffffffffu), std::nullopt);
}

}  // namespace
}  // namespace martlet
