// What a model's folder says of its tokenizer, whatever is in it.

#include "chat/model_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

namespace martlet {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTokenizer = R"({
  "added_tokens": [{"id": 3, "content": "<s>", "special": true}, {"id": 5, "content": "</s>"}],
  "post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"},
      {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A"}}]}]},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b", ["ab", "a"]]}})";

class Folder {
 public:
  Folder()
      : path_(fs::path(testing::TempDir()) / ("folder" + std::to_string(getpid()) + "-" + std::to_string(++count))) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder& with(const char* name, std::string_view text) {
    std::ofstream(path_ / name) << text;
    return *this;
  }
  Result<ModelFolder> read() const { return read_model_folder(path_.string()); }
  std::string path() const { return path_.string(); }

 private:
  static inline int count = 0;
  fs::path path_;
};

TEST(ModelFolder, VocabularyMergesAndWhatStandsInFront) {
  const auto vocabulary = parse_tokenizer_json(kTokenizer);
  ASSERT_TRUE(vocabulary) << vocabulary.error().line();
  EXPECT_EQ(vocabulary->pieces, (std::vector<std::string>{"a", "b", "ab", "<s>", "", "</s>"}));
  EXPECT_EQ(vocabulary->merges, (std::vector<std::string>{"a b", "ab a"}));
  EXPECT_EQ(vocabulary->first, "<s>");
  const auto scored = parse_tokenizer_json(R"({"model": {"type": "Unigram", "vocab": [["<unk>", 0], ["x", -1.5]]}})");
  ASSERT_TRUE(scored);
  EXPECT_EQ(scored->pieces, (std::vector<std::string>{"<unk>", "x"}));
}

TEST(ModelFolder, SpecialTokensAndTheTemplate) {
  Folder folder;
  folder.with("tokenizer.json", kTokenizer)
      .with("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": {"content": "</s>"},
        "chat_template": [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "{{ bos_token }}yes"}]})")
      .with("config.json", R"({"eos_token_id": 1})")
      .with("generation_config.json", R"({"eos_token_id": [2, 0]})");
  const auto read = folder.read();
  ASSERT_TRUE(read) << read.error().line();
  EXPECT_EQ(read->bos, 3);
  EXPECT_EQ(read->eos, 5);
  EXPECT_TRUE(read->adds_bos);
  EXPECT_EQ(read->eos_name, "</s>");
  EXPECT_EQ(read->stop_tokens, (std::vector<Token>{0, 2, 5})) << "generation's in the place of the model's";
  ASSERT_TRUE(read->chat_template);
  const std::chrono::system_clock::time_point now;
  EXPECT_EQ(read->chat_template->render(boost::json::object{{"bos_token", "!"}}, now)->text, "!yes");
  folder.with("chat_template.jinja", "a file of its own");
  EXPECT_EQ(folder.read()->chat_template->render(boost::json::object(), now)->text, "a file of its own");
}

TEST(ModelFolder, IdsOfTheModelStandInForATokenizerThatNamesNone) {
  Folder folder;
  folder.with("tokenizer.json", R"({"model": {"vocab": {"a": 0, "b": 1}}})")
      .with("config.json", R"({"bos_token_id": 0, "eos_token_id": [1, 0]})");
  const auto read = folder.read();
  ASSERT_TRUE(read);
  EXPECT_EQ(read->bos, 0);
  EXPECT_EQ(read->eos, 1);
  EXPECT_FALSE(read->adds_bos);
  EXPECT_EQ(read->bos_name, "") << "a template sees what the tokenizer says";
  EXPECT_FALSE(read->chat_template);
}

TEST(ModelFolder, BadOnesAreRefused) {
  for (const char* text : {"", "{", "[]", "{}", R"({"model": {"vocab": 1}})", R"({"model": {"vocab": {"a": -1}}})",
                           R"({"model": {"vocab": {"a": 999}}})", R"({"model": {"vocab": {"a": 1e3}}})",
                           R"({"model": {"vocab": {"a": 0, "b": 0}}})", R"({"model": {"vocab": [[1, "a"]]}})",
                           R"({"model": {"vocab": {"a": 0}, "merges": [["a"]]}})",
                           R"({"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 0, "content": "b"}]})"}) {
    const auto vocabulary = parse_tokenizer_json(text);
    ASSERT_FALSE(vocabulary) << text;
    EXPECT_EQ(vocabulary.error().code, "bad_vocab");
  }
  Folder folder;
  EXPECT_FALSE(is_model_folder(folder.path()));
  EXPECT_EQ(folder.read().error().code, "file_not_found");
  folder.with("tokenizer.json", kTokenizer).with("config.json", "{");
  EXPECT_TRUE(is_model_folder(folder.path()));
  EXPECT_EQ(folder.read().error().code, "bad_model_folder");
}

// A15: a value of two bytes takes 24 and more in memory.
TEST(ModelFolder, A15_ManySmallValuesAreRefusedBeforeTheyAreRead) {
  const auto filled = [](std::string_view members, int values) {
    std::string out = "{" + std::string(members) + "\"fill\":[";
    for (int i = 0; i < values; ++i) out += "0,";
    return out + "0]}";
  };
  const char* model = R"("model": {"vocab": {"a": 0}},)";
  EXPECT_TRUE(parse_tokenizer_json(filled(model, 1000)));
  const auto vocabulary = parse_tokenizer_json(filled(model, 1 << 23));
  ASSERT_FALSE(vocabulary);
  EXPECT_EQ(vocabulary.error().code, "bad_vocab");
  Folder folder;
  folder.with("tokenizer.json", kTokenizer).with("config.json", filled("", 1000));
  EXPECT_TRUE(folder.read());
  folder.with("config.json", filled("", 1 << 18));
  const auto read = folder.read();
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, "bad_model_folder");
}

TEST(ModelFolder, DamagedTextIsRefusedOrReadButNeverTrusted) {
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string text(kTokenizer.substr(0, random() % 8 ? kTokenizer.size() : random() % kTokenizer.size()));
    for (int k = random() % 3; k >= 0 && !text.empty(); --k)
      text[random() % text.size()] = "{}[]\",:-019e \x80"[random() % 15];
    const auto vocabulary = parse_tokenizer_json(text);
    if (vocabulary) {
      EXPECT_LE(vocabulary->pieces.size(), size_t{1} << 21);
    }
  }
}

}  // namespace
}  // namespace martlet
