// Any bytes through every kind of vocabulary and every way to cut text: nothing is lost, and nothing that the text says
// becomes a control token. The first byte chooses the tokenizer, the second how long the trusted span is.

#include <cstdlib>

#include "../unit/text/small_vocabulary.h"
#include "base/utf8.h"
#include "text/detokenizer.h"
#include "text/pre_tokenizers.h"

namespace martlet {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

std::vector<std::shared_ptr<const Tokenizer>> make_tokenizers() {
  SmallVocabulary letters;
  letters.add_letters();
  for (const std::string_view unit : {"A", " ", "\n", "न", "<e>"}) letters.merge_repeats(unit, 3);
  letters.merge("e", "n");
  letters.add("<e>", TokenKind::control);
  letters.add("<u>", TokenKind::user_defined);
  SmallVocabulary bytes;
  bytes.add_bytes();
  for (const char* piece : {"▁", "▁a", "a", "aa", "न", "नन", "▁▁", "<e", ">", "<", "e"})
    bytes.add(piece, TokenKind::normal, -1);
  bytes.add("<e>", TokenKind::control);
  bytes.add("<u>", TokenKind::user_defined);
  std::vector<std::shared_ptr<const Tokenizer>> out;
  for (const char* model : {"llama", "t5", "gemma4"})
    out.push_back(make_tokenizer(bytes.source(model, "gemma4")).value());
  for (const PreTokenizerRow& row : pre_tokenizer_rows()) {
    if (!(row.flags & kCharacters)) out.push_back(make_tokenizer(letters.source("gpt2", row.name)).value());
  }
  return out;
}

void check(const Tokenizer& tokenizer, std::string_view text, Span trusted) {
  std::vector<Token> plain, special;
  tokenizer.encode(text, {}, plain);
  tokenizer.encode(text, std::span(&trusted, 1), special);
  for (const Token token : plain) require(tokenizer.kind(token) != TokenKind::control);
  // To a SentencePiece vocabulary, U+2581 is a space.
  if (text.find("\u2581") != std::string_view::npos) return;
  require(tokenizer.decode(plain) == text);
  require(tokenizer.decode(special, true) == text);
  std::string streamed;
  StopStrings stops({"aa", "<u>\n"});
  Detokenizer detokenizer(std::shared_ptr<const Tokenizer>(std::shared_ptr<void>(), &tokenizer), false, true);
  for (const Token token : plain) streamed += stops.push(detokenizer.push(token));
  streamed += stops.push(detokenizer.finish());
  streamed += stops.finish();
  require(utf8::valid(streamed));
  require(stops.stopped() || streamed == utf8::replace_invalid(text));
}

}  // namespace
}  // namespace martlet

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace martlet;
  static const auto tokenizers = make_tokenizers();
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  check(*tokenizers[data[0] % tokenizers.size()], text, {0, std::min<size_t>(data[1], text.size())});
  return 0;
}
