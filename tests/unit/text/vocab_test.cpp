// Every reference vocabulary, both directions: text to the reference ids, and those ids back to the text.

#include <fstream>
#include <sstream>

#include "shared.h"
#include "text/tokenizer.h"

namespace martlet {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  for (size_t at = 0;;) {
    const size_t end = text.find(separator, at);
    parts.push_back(text.substr(at, end - at));
    if (end == std::string::npos) return parts;
    at = end + separator.size();
  }
}

std::vector<Token> parse_ids(const std::string& line) {
  std::istringstream in(line);
  std::vector<Token> ids;
  for (Token id; in >> id;) ids.push_back(id);
  return ids;
}

// `exact`: the ids say the text again. Normalisation and unknown characters lose some.
void check(const std::string& base, bool exact) {
  auto file = ModelFile::open(base + ".gguf");
  ASSERT_TRUE(file) << file.error().line();
  auto tokenizer = Tokenizer::create(**file);
  ASSERT_TRUE(tokenizer) << tokenizer.error().line();
  auto texts = split(read_file(base + ".inp"), "\n__ggml_vocab_test__\n");
  if (texts.back().empty()) texts.pop_back();  // most files end with a separator
  auto lines = split(read_file(base + ".out"), "\n");
  if (lines.back().empty()) lines.pop_back();
  ASSERT_EQ(texts.size(), lines.size());
  ASSERT_GT(texts.size(), 40u);
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::vector<Token> expected = parse_ids(lines[i]);
    std::vector<Token> ids;
    (*tokenizer)->encode(texts[i], {}, ids);
    EXPECT_EQ(ids, expected) << base << " text " << i << ": " << texts[i].substr(0, 80);
    if (!exact) continue;
    EXPECT_EQ((*tokenizer)->decode(expected), texts[i]) << base << " text " << i;
  }
}

#define VOCABULARY(test, name)                           \
  TEST(Vocabulary, test) {                               \
    MARTLET_NEEDS_SHARED("vectors/vocab/" name ".gguf"); \
    check(shared_path("vectors/vocab/" name), true);     \
  }
VOCABULARY(DeepseekLlm, "deepseek-llm")
VOCABULARY(Gemma4, "gemma-4")
VOCABULARY(Gpt2, "gpt-2")
VOCABULARY(LlamaBpe, "llama-bpe")
VOCABULARY(LlamaSpm, "llama-spm")
VOCABULARY(Phi3, "phi-3")
VOCABULARY(Qwen2, "qwen2")
VOCABULARY(Qwen35, "qwen35")
VOCABULARY(Starcoder, "starcoder")

TEST(Vocabulary, Unigram) {
  check("tests/golden/text/unigram", false);
}
TEST(Vocabulary, UnigramWithBytes) {
  check("tests/golden/text/unigram-bytes", false);
}

}  // namespace
}  // namespace martlet
