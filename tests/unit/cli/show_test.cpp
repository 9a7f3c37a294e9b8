#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <sstream>

#include "cli/describe.h"
#include "file/gguf_writer.h"

namespace martlet::cli {
namespace {

// A model with a hostile name, one tensor that does not compute, and no usable vocabulary.
std::string model_bytes() {
  gguf::Writer writer;
  writer.add("general.architecture", "llama");
  writer.add("general.name", "red \x1b[31m alert\x07 \xff");
  writer.add("llama.block_count", uint32_t{2});
  writer.add("llama.context_length", uint32_t{4096});
  writer.add("a.infinite", 1.0f / 0.0f);
  const int32_t numbers[] = {1, 2, 3, 4, 5, 6, 7, 8};
  writer.add_array<int32_t>("a.numbers", numbers);
  const std::string_view tokens[] = {"<s>", "\x1b[2J"};
  writer.add_array("tokenizer.ggml.tokens", tokens);
  writer.add("tokenizer.ggml.model", "unheard-of");
  writer.add("tokenizer.chat_template", "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight");
  const int64_t small[] = {8}, large[] = {256, 4};
  writer.add_tensor("small", Format::F32, small);
  writer.add_tensor("large", Format::IQ2_XXS, large);
  const std::string data(4 * 66, '\0');
  std::string file;
  const auto bytes = [&](size_t i) -> Result<gguf::Writer::Bytes> {
    return std::as_bytes(std::span(data)).first(i == 0 ? 32 : data.size());
  };
  const auto sink = [&](gguf::Writer::Bytes part) -> Status {
    file.append(reinterpret_cast<const char*>(part.data()), part.size());
    return {};
  };
  EXPECT_TRUE(writer.write(bytes, sink));
  return file;
}

class ShowTest : public testing::Test {
 protected:
  ShowTest() : bytes_(model_bytes()) {
    auto opened = ModelFile::from_memory(std::as_bytes(std::span(bytes_)), "folder/test.gguf");
    if (opened) model_ = *opened;
  }
  void SetUp() override { ASSERT_TRUE(model_); }

  std::string bytes_;
  std::shared_ptr<const ModelFile> model_;
};

TEST_F(ShowTest, LinesAreAligned) {
  const std::string text = describe(summarize(*model_), {});
  EXPECT_NE(text.find("architecture        llama\n"), std::string::npos) << text;
  EXPECT_NE(text.find("layers              2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("context             4096 tokens\n"), std::string::npos) << text;
  EXPECT_NE(text.find("parameters          1032\n"), std::string::npos) << text;
}

TEST_F(ShowTest, NothingFromTheFileReachesTheTerminalRaw) {
  const std::string text = describe(summarize(*model_), {}) + describe_metadata(*model_, {});
  EXPECT_TRUE(std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 && c != '\n'; })) << text;
  EXPECT_NE(text.find("red ?[31m alert? \xef\xbf\xbd"), std::string::npos) << text;
}

TEST_F(ShowTest, FormatsThatDoNotComputeAreMarked) {
  const std::string text = describe(summarize(*model_), {});
  const size_t line = text.find("IQ2_XXS");
  ASSERT_NE(line, std::string::npos) << text;
  EXPECT_NE(text.substr(line, text.find('\n', line) - line).find("cannot be computed with"), std::string::npos);
  EXPECT_LT(line, text.find("F32")) << "most bytes first";
}

TEST_F(ShowTest, LongThingsAreAbbreviated) {
  const std::string text = describe(summarize(*model_), {});
  EXPECT_NE(text.find("chat template       8 lines"), std::string::npos) << text;
  EXPECT_NE(text.find("  six\n  ...\n"), std::string::npos) << text;
  EXPECT_NE(describe_metadata(*model_, {}).find("[1, 2, 3, 4, 5, 6, ...] (8 in all)"), std::string::npos);
}

TEST_F(ShowTest, AVocabularyThatCannotBeUsedIsSaid) {
  EXPECT_NE(describe(summarize(*model_), {}).find("tokenizer.ggml.model"), std::string::npos);
  EXPECT_EQ(to_json(summarize(*model_)).at("tokenizer_error"), "unsupported_tokenizer");
}

TEST_F(ShowTest, JsonIsCompleteAndValid) {
  boost::json::object out = to_json(summarize(*model_));
  out["metadata"] = metadata_to_json(*model_);
  const boost::json::value again = boost::json::parse(boost::json::serialize(out));
  EXPECT_EQ(again.at("parameters"), 1032);
  EXPECT_EQ(again.at("context_length"), 4096);
  EXPECT_EQ(again.at("vocabulary_size"), 2);
  EXPECT_EQ(again.at("formats").at(0).at("format"), "IQ2_XXS");
  EXPECT_EQ(again.at("formats").at(0).at("computes"), false);
  EXPECT_EQ(again.at("metadata").at("a.numbers").as_array().size(), 8u);
  EXPECT_TRUE(again.at("metadata").at("a.infinite").is_null());
  EXPECT_TRUE(again.at("bos_token").is_null());
}

TEST_F(ShowTest, AModelWithoutANameIsCalledAsItsFile) {
  gguf::Writer writer;
  const std::string empty = writer.header();
  const auto model = ModelFile::from_memory(std::as_bytes(std::span(empty)), "folder/test.gguf");
  ASSERT_TRUE(model);
  EXPECT_EQ(summarize(**model).name, "test.gguf");
}

}  // namespace
}  // namespace martlet::cli
