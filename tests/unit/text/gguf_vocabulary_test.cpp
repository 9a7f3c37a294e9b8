// A9 of the fault list: vocabularies of files that contradict themselves. And what the keys of sound files mean.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "file/gguf_writer.h"
#include "small_vocabulary.h"

namespace martlet {
namespace {

#define KEY(name) "tokenizer.ggml." name

using Change = std::function<void(gguf::Writer&)>;

Result<std::shared_ptr<const ModelFile>> write_and_open(const gguf::Writer& writer) {
  const auto path =
      std::filesystem::temp_directory_path() / ("martlet-vocabulary-" + std::to_string(getpid()) + ".gguf");
  std::ofstream(path, std::ios::binary) << writer.header();
  auto file = ModelFile::open(path.string());
  std::filesystem::remove(path);  // it stays mapped
  return file;
}

const std::vector<std::string_view> kPieces = {"<s>", "</s>", "▁a", "a", "<0x41>", "<|im_end|>"};
const std::vector<int32_t> kTypes = {3, 3, 1, 1, 6, 4};
const std::vector<float> kScores = {0, 0, 1, 1, 0, 0};

// A sound SentencePiece vocabulary but for what `change` adds; `types` and `scores` may be left out of it.
Result<std::shared_ptr<const Tokenizer>> tokenizer_with(const Change& change, bool types = true, bool scores = true,
                                                        std::vector<std::string_view> pieces = kPieces) {
  gguf::Writer writer;
  writer.add("general.architecture", "llama");
  writer.add(KEY("model"), "llama");
  writer.add_array(KEY("tokens"), pieces);
  if (types) writer.add_array(KEY("token_type"), std::span(kTypes));
  if (scores) writer.add_array(KEY("scores"), std::span(kScores));
  change(writer);
  auto file = write_and_open(writer);
  if (!file) return file.error();
  return Tokenizer::create(**file);
}

std::string code(const Result<std::shared_ptr<const Tokenizer>>& result) {
  return result ? "none" : result.error().code;
}
void nothing(gguf::Writer&) {}

TEST(GgufVocabulary, Sound) {
  auto tokenizer = tokenizer_with(nothing);
  ASSERT_TRUE(tokenizer) << tokenizer.error().line();
  const Tokenizer& t = **tokenizer;
  EXPECT_EQ(t.size(), 6);
  EXPECT_EQ(t.bos(), 1);  // the defaults of this kind
  EXPECT_EQ(t.eos(), 2);
}

TEST(GgufVocabulary, A9_Scores) {
  const std::vector<uint8_t> bytes(6, 0);
  const std::vector<float> few(5, 0), nan(6, std::nanf(""));
  EXPECT_EQ(code(tokenizer_with([&](auto& w) { w.add_array(KEY("scores"), std::span(bytes)); }, true, false)),
            "bad_vocab");
  EXPECT_EQ(code(tokenizer_with([&](auto& w) { w.add_array(KEY("scores"), std::span(few)); }, true, false)),
            "bad_vocab");
  EXPECT_EQ(code(tokenizer_with([&](auto& w) { w.add_array(KEY("scores"), std::span(nan)); }, true, false)),
            "bad_vocab");
  EXPECT_EQ(code(tokenizer_with([&](auto& w) { w.add(KEY("scores"), "none"); }, true, false)), "bad_vocab");
  EXPECT_EQ(code(tokenizer_with(nothing, true, false)), "bad_vocab");
}

TEST(GgufVocabulary, A9_TokenTypes) {
  const std::vector<int32_t> few = {3, 3, 1}, unknown = {3, 3, 1, 1, 7, 3}, zero = {3, 3, 0, 1, 6, 3};
  for (const auto& types : {few, unknown, zero}) {
    EXPECT_EQ(code(tokenizer_with([&](auto& w) { w.add_array(KEY("token_type"), std::span(types)); }, false)),
              "bad_vocab");
  }
}

TEST(GgufVocabulary, A9_ByteTokens) {
  for (const char* piece : {"<0x-1>", "<0x4>", "<0xGG>", "<0x041>", "A", ""}) {
    EXPECT_EQ(code(tokenizer_with(nothing, true, true, {"<s>", "</s>", "▁a", "a", piece, "<|im_end|>"})), "bad_vocab")
        << piece;
  }
}

TEST(GgufVocabulary, A9_TokensOutOfRange) {
  for (const char* key :
       {KEY("bos_token_id"), KEY("eos_token_id"), KEY("eot_token_id"), KEY("eom_token_id"), KEY("unknown_token_id")}) {
    EXPECT_EQ(code(tokenizer_with([&](auto& w) { w.add(key, uint32_t{6}); })), "bad_vocab") << key;
    EXPECT_EQ(code(tokenizer_with([&](auto& w) { w.add(key, ~uint32_t{0}); })), "bad_vocab") << key;
    EXPECT_EQ(code(tokenizer_with([&](auto& w) { w.add(key, int32_t{-1}); })), "bad_vocab") << key;
    EXPECT_EQ(code(tokenizer_with([&](auto& w) { w.add(key, "0"); })), "bad_vocab") << key;
    EXPECT_EQ(code(tokenizer_with([&](auto& w) { w.add(key, uint32_t{0}); })), "none") << key;
  }
}

TEST(GgufVocabulary, A9_NoTokens) {
  gguf::Writer writer;
  writer.add(KEY("model"), "gpt2");
  auto file = write_and_open(writer);
  ASSERT_TRUE(file) << file.error().line();
  EXPECT_EQ(code(Tokenizer::create(**file)), "bad_vocab");
}

TEST(GgufVocabulary, EndsOfGeneration) {
  auto tokenizer = tokenizer_with([](auto& w) {
    w.add(KEY("bos_token_id"), uint32_t{0});
    w.add(KEY("eos_token_id"), uint32_t{1});
    w.add(KEY("eot_token_id"), uint32_t{3});
  });
  ASSERT_TRUE(tokenizer) << tokenizer.error().line();
  const Tokenizer& t = **tokenizer;
  EXPECT_TRUE(t.is_stop(1));
  EXPECT_TRUE(t.is_stop(3));  // by its key
  EXPECT_TRUE(t.is_stop(5));  // by its name
  EXPECT_FALSE(t.is_stop(0));
  EXPECT_FALSE(t.is_stop(2));
  // What ends a generation is a control token even where the file calls it user-defined or normal.
  EXPECT_EQ(t.kind(5), TokenKind::control);
  EXPECT_EQ(t.kind(3), TokenKind::control);
  for (const Token token : encode(t, "a<|im_end|>")) EXPECT_FALSE(t.is_stop(token));
}

TEST(GgufVocabulary, DefaultsAndKeys) {
  const auto with_bos = [](auto& w) { w.add(KEY("bos_token_id"), uint32_t{0}); };
  EXPECT_TRUE(tokenizer_with(with_bos).value()->adds_bos());
  EXPECT_FALSE(tokenizer_with(with_bos).value()->adds_eos());
  EXPECT_TRUE(tokenizer_with(with_bos).value()->strips_leading_space());
  auto tokenizer = tokenizer_with([&](auto& w) {
                     with_bos(w);
                     w.add(KEY("add_bos_token"), false);
                     w.add(KEY("add_eos_token"), true);
                     w.add(KEY("add_space_prefix"), false);
                   }).value();
  EXPECT_FALSE(tokenizer->adds_bos());
  EXPECT_TRUE(tokenizer->adds_eos());
  EXPECT_FALSE(tokenizer->strips_leading_space());
}

}  // namespace
}  // namespace martlet
