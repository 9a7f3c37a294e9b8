#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "text/vocabulary.h"

namespace martlet {
namespace {

// The 256 bytes as a SentencePiece-like vocabulary would hold them: ids are bytes.
std::shared_ptr<const Tokenizer> byte_tokenizer(bool adds_space_prefix = false) {
  auto names = std::make_shared<std::vector<std::string>>();
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    names->push_back(name);
  }
  names->push_back("▁hello");
  names->push_back("<|end|>");
  VocabularySource source;
  source.model = "llama";
  source.pieces.assign(names->begin(), names->end());
  source.kinds.assign(256, TokenKind::byte);
  source.kinds.push_back(TokenKind::normal);
  source.kinds.push_back(TokenKind::control);
  source.scores.assign(source.pieces.size(), 0.0f);
  source.adds_space_prefix = adds_space_prefix;
  source.owner = names;
  return make_tokenizer(std::move(source)).value();
}

// Models may have more rows than the vocabulary has tokens, and draw one of them.
TEST(Detokenizer, RowsBeyondTheVocabularySpellNothing) {
  const auto tokenizer = byte_tokenizer();
  EXPECT_EQ(tokenizer->bytes(tokenizer->size()), "");
  EXPECT_EQ(tokenizer->bytes(tokenizer->size() + 100000, true), "");
  EXPECT_EQ(tokenizer->decode(std::vector<Token>{'a', tokenizer->size(), 'b'}), "ab");
}

TEST(Detokenizer, WholeCharactersOnly) {
  Detokenizer detokenizer(byte_tokenizer(), false, false);
  EXPECT_EQ(detokenizer.push(0xf0), "");
  EXPECT_EQ(detokenizer.push(0x9f), "");
  EXPECT_EQ(detokenizer.push(0xa6), "");
  EXPECT_EQ(detokenizer.push(0x99), "🦙");
  EXPECT_EQ(detokenizer.push('a'), "a");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, B5_ReplacementOnlyForWhatCannotBecomeValid) {
  Detokenizer detokenizer(byte_tokenizer(), false, false);
  EXPECT_EQ(detokenizer.push(0xff), "\ufffd");
  EXPECT_EQ(detokenizer.push(0xe2), "");
  EXPECT_EQ(detokenizer.push('x'), "\ufffdx");
  EXPECT_EQ(detokenizer.push(0xe2), "");
  EXPECT_EQ(detokenizer.push(0x96), "");
  EXPECT_EQ(detokenizer.finish(), "\ufffd");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, StreamEqualsWholeForAnyBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    Detokenizer detokenizer(byte_tokenizer(), false, false);
    std::string streamed;
    for (int i = 0; i < 40; ++i) {
      const auto byte = static_cast<uint8_t>(round % 2 ? random() : 0x80 | random());
      bytes += static_cast<char>(byte);
      const std::string part = detokenizer.push(byte);
      EXPECT_TRUE(utf8::valid(part));
      streamed += part;
    }
    EXPECT_EQ(streamed + detokenizer.finish(), utf8::replace_invalid(bytes));
  }
}

TEST(Detokenizer, LeadingSpace) {
  Detokenizer begins(byte_tokenizer(true), false, false), continues(byte_tokenizer(true), false, true);
  EXPECT_EQ(begins.push(257), "");  // a control token is no text: the first text still loses its space
  EXPECT_EQ(begins.push(256), "hello");
  EXPECT_EQ(begins.push(256), " hello");
  EXPECT_EQ(continues.push(256), " hello");
  EXPECT_EQ(Detokenizer(byte_tokenizer(), false, false).push(256), " hello");
}

TEST(Detokenizer, ControlTokensByNameWhenSpecial) {
  EXPECT_EQ(Detokenizer(byte_tokenizer(), true, false).push(257), "<|end|>");
  EXPECT_EQ(Detokenizer(byte_tokenizer(), false, false).push(257), "");
}

TEST(StopStrings, CutsAndHoldsBackOnlyWhatMayStop) {
  StopStrings stops({"END", "\n\n"});
  EXPECT_EQ(stops.push("one E"), "one ");
  EXPECT_EQ(stops.push("Nx"), "ENx");
  EXPECT_EQ(stops.push("\n"), "");
  EXPECT_EQ(stops.push("two\n"), "\ntwo");
  EXPECT_FALSE(stops.stopped());
  EXPECT_EQ(stops.push("\nthree"), "");
  EXPECT_TRUE(stops.stopped());
  EXPECT_EQ(stops.matched(), "\n\n");
  EXPECT_EQ(stops.push("four"), "");
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopStrings, FinishGivesWhatWasHeld) {
  StopStrings stops({"abcabd"});
  EXPECT_EQ(stops.push("abcabcab"), "abc");
  EXPECT_EQ(stops.finish(), "abcab");
  EXPECT_EQ(stops.finish(), "");
  EXPECT_FALSE(stops.stopped());
}

TEST(StopStrings, FirstCompleteWinsLongestOfEquals) {
  StopStrings inner({"abcd", "bc"});
  EXPECT_EQ(inner.push("xabcd"), "xa");
  EXPECT_EQ(inner.matched(), "bc");
  StopStrings equal({"c", "abc"});
  EXPECT_EQ(equal.push("xabc"), "x");
  EXPECT_EQ(equal.matched(), "abc");
}

TEST(StopStrings, NoneAndEmptyNeverStop) {
  StopStrings stops({""});
  EXPECT_EQ(stops.push("text"), "text");
  EXPECT_FALSE(stops.stopped());
}

// Against the plain search, on a two-letter alphabet, where nearly everything overlaps.
TEST(StopStrings, AgreesWithSearch) {
  std::mt19937 random(2);
  const auto word = [&](size_t longest) {
    std::string out(1 + random() % longest, 'a');
    for (char& c : out) c = random() % 2 ? 'a' : 'b';
    return out;
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> stops;
    for (int i = 0; i < 3; ++i) stops.push_back(word(6));
    const std::string text = word(30);
    size_t end = std::string::npos, length = 0;
    for (size_t i = 1; i <= text.size() && end == std::string::npos; ++i) {
      for (const std::string& stop : stops) {
        if (std::string_view(text).substr(0, i).ends_with(stop)) end = i, length = std::max(length, stop.size());
      }
    }
    StopStrings machine(stops);
    std::string out;
    for (size_t i = 0; i < text.size(); i += 3) out += machine.push(std::string_view(text).substr(i, 3));
    out += machine.finish();
    EXPECT_EQ(machine.stopped(), end != std::string::npos);
    EXPECT_EQ(out, end == std::string::npos ? text : text.substr(0, end - length));
  }
}

TEST(StopStrings, ThousandsOfStopStrings) {
  std::vector<std::string> stops;
  for (int i = 0; i < 5000; ++i) stops.push_back(std::string(40, 'a') + std::to_string(i));
  StopStrings machine(stops);
  EXPECT_EQ(machine.push(std::string(1 << 20, 'a')).size(), (1u << 20) - 40);
  machine.push("77!");
  EXPECT_EQ(machine.matched(), std::string(40, 'a') + "7");
}

}  // namespace
}  // namespace martlet
