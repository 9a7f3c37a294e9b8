// What every tokenizer promises: A9, B2 and B4 of the fault list, special tokens, ends, the way back.

#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "small_vocabulary.h"

namespace martlet {
namespace {

std::string error_code(const VocabularySource& source) {
  auto made = make_tokenizer(source);
  return made ? "none" : made.error().code;
}

TEST(TokenizerFaults, UnknownPreTokenizerIsRefused) {
  SmallVocabulary vocabulary;
  vocabulary.add_letters();
  EXPECT_EQ(error_code(vocabulary.source("gpt2", "gpt-2")), "none");
  EXPECT_EQ(error_code(vocabulary.source("gpt2", "no-such-name")), "unsupported_tokenizer");
  EXPECT_EQ(error_code(vocabulary.source("gpt2", "")), "unsupported_tokenizer");
  EXPECT_EQ(error_code(vocabulary.source("no-such-model", "gpt-2")), "unsupported_tokenizer");
}

TEST(TokenizerFaults, A9_DanglingMerges) {
  SmallVocabulary vocabulary;
  vocabulary.add_letters();
  for (const char* merge : {"a", "", " ", "a nothing", "nothing a", "a b"}) {  // there is no "ab"
    VocabularySource source = vocabulary.source("gpt2", "gpt-2");
    source.merges = {merge};
    EXPECT_EQ(error_code(source), "bad_vocab") << merge;
  }
}

TEST(TokenizerFaults, A9_SentencePieceWithoutScores) {
  SmallVocabulary vocabulary;
  vocabulary.add_bytes();
  for (const char* model : {"llama", "t5"}) {
    VocabularySource source = vocabulary.source(model, "");
    source.scores.clear();
    EXPECT_EQ(error_code(source), "bad_vocab") << model;
  }
}

TEST(TokenizerFaults, A9_Charsmap) {
  using namespace std::string_literals;
  SmallVocabulary vocabulary;
  vocabulary.add("a");
  for (const std::string& map :
       {"x"s, "\x00\x00\x00\x00"s, "\x08\x00\x00\x00\x00\x00\x00\x00"s, "\x03\x00\x00\x00\x00\x00\x00\x00"s,
        "\x04\x00\x00\x00\x00\x00\x00\x00no end"s, "\xff\xff\xff\xff\x00\x00\x00\x00"s}) {
    VocabularySource source = vocabulary.source("t5", "");
    source.charsmap = map;
    EXPECT_EQ(error_code(source), "bad_vocab");
  }
}

// A byte-level vocabulary with a control token that could also be merged from its letters.
struct Special {
  SmallVocabulary vocabulary;
  Token control, user, longer;
  std::shared_ptr<const Tokenizer> tokenizer;
  Special() {
    vocabulary.add_letters();
    const std::string half = vocabulary.merge("<", "e");
    vocabulary.merge(half, ">", TokenKind::control);
    control = 257;
    user = vocabulary.add("<u>", TokenKind::user_defined);
    longer = vocabulary.add("<u><e>", TokenKind::control);
    tokenizer = make_tokenizer(vocabulary.source("gpt2", "bloom")).value();  // does not cut at "<"
  }
};

TEST(TokenizerFaults, B4_ControlTokensOnlyWhollyInsideTrustedSpans) {
  const Special s;
  const std::string text = "<e><e>";
  const std::vector<Token> both = {256, '>', 256, '>'};
  EXPECT_EQ(encode(*s.tokenizer, text), both);
  const Span all{0, 6}, first{0, 3}, second{3, 6}, cut{1, 6}, across{2, 5};
  EXPECT_EQ(encode(*s.tokenizer, text, {{all}}), (std::vector<Token>{s.control, s.control}));
  EXPECT_EQ(encode(*s.tokenizer, text, {{first}}), (std::vector<Token>{s.control, 256, '>'}));
  EXPECT_EQ(encode(*s.tokenizer, text, {{cut}}), (std::vector<Token>{256, '>', s.control}));
  EXPECT_EQ(encode(*s.tokenizer, text, {{across}}), both);
  const std::vector<Span> halves = {first, second}, pieces = {{0, 2}, {2, 6}};
  EXPECT_EQ(encode(*s.tokenizer, text, halves), (std::vector<Token>{s.control, s.control}));
  EXPECT_EQ(encode(*s.tokenizer, text, pieces), (std::vector<Token>{256, '>', s.control}));
}

TEST(Tokenizer, UserDefinedTokensEverywhereLongestFirst) {
  const Special s;
  EXPECT_EQ(encode(*s.tokenizer, "a<u>b"), (std::vector<Token>{'a', s.user, 'b'}));
  EXPECT_EQ(encode(*s.tokenizer, "<u><e>"), (std::vector<Token>{s.user, 256, '>'}));
  const Span all{0, 6}, last{3, 6};
  EXPECT_EQ(encode(*s.tokenizer, "<u><e>", {{all}}), (std::vector<Token>{s.longer}));
  EXPECT_EQ(encode(*s.tokenizer, "<u><e>", {{last}}), (std::vector<Token>{s.user, s.control}));
}

TEST(Tokenizer, ControlTokensSpellTheirNameOnRequest) {
  const Special s;
  EXPECT_EQ(s.tokenizer->bytes(s.control), "");
  EXPECT_EQ(s.tokenizer->bytes(s.control, true), "<e>");
  EXPECT_EQ(s.tokenizer->bytes(s.user), "<u>");
  EXPECT_EQ(s.tokenizer->decode(std::vector<Token>{'a', s.control, 'b'}), "ab");
  EXPECT_EQ(s.tokenizer->decode(std::vector<Token>{'a', s.control, 'b'}, true), "a<e>b");
}

TEST(Tokenizer, MergesBestRankFirstLeftmostOfEquals) {
  SmallVocabulary vocabulary;
  vocabulary.add_letters();
  const std::string bc = vocabulary.merge("b", "c"), aa = vocabulary.merge("a", "a"), ab = vocabulary.merge("a", "b");
  auto tokenizer = make_tokenizer(vocabulary.source("gpt2", "gpt-2")).value();
  EXPECT_EQ(encode(*tokenizer, "abc"), (std::vector<Token>{'a', 256}));
  EXPECT_EQ(encode(*tokenizer, "aaab"), (std::vector<Token>{257, 258}));
  EXPECT_EQ(encode(*tokenizer, "aaaaa"), (std::vector<Token>{257, 257, 'a'}));
}

// Against merging by the definition, one best pair after the other.
TEST(Tokenizer, MergesAgreeWithTheDefinition) {
  std::mt19937 random(3);
  SmallVocabulary vocabulary;
  vocabulary.add_letters();
  std::vector<std::string> pieces = {"a", "b", "c"};
  std::vector<std::pair<std::string, std::string>> merges;
  for (int i = 0; i < 60; ++i) {
    const std::string left = pieces[random() % pieces.size()], right = pieces[random() % pieces.size()];
    if (std::ranges::find(pieces, left + right) != pieces.end()) continue;
    pieces.push_back(vocabulary.merge(left, right));
    merges.emplace_back(left, right);
  }
  auto tokenizer = make_tokenizer(vocabulary.source("gpt2", "gpt-2")).value();
  for (int round = 0; round < 500; ++round) {
    std::vector<std::string> symbols;
    std::string text;
    for (size_t i = 0; i < 1 + random() % 60; ++i)
      symbols.emplace_back(1, static_cast<char>('a' + random() % 3)), text += symbols.back();
    for (;;) {
      size_t best = merges.size(), at = 0;
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const size_t rank = std::ranges::find(merges, std::pair(symbols[i], symbols[i + 1])) - merges.begin();
        if (rank < best) best = rank, at = i;
      }
      if (best == merges.size()) break;
      symbols[at] += symbols[at + 1];
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    std::vector<Token> expected;
    for (const std::string& symbol : symbols) expected.push_back(tokenizer->find(symbol));
    EXPECT_EQ(encode(*tokenizer, text), expected) << text;
  }
}

TEST(TokenizerFaults, B2_AnyBytesRoundTrip) {
  SmallVocabulary letters;
  letters.add_letters();
  letters.merge_repeats("é", 3);
  SmallVocabulary bytes;
  bytes.add_bytes();
  for (const char* piece : {"▁", "▁a", "a", "é", "éé"}) bytes.add(piece);
  const auto bpe = make_tokenizer(letters.source("gpt2", "llama-bpe")).value();
  const auto spm = make_tokenizer(bytes.source("llama", "")).value();
  const auto unigram = make_tokenizer(bytes.source("t5", "")).value();
  std::mt19937 random(4);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (size_t i = 0; i < random() % 24; ++i) {
      switch (random() % 4) {
        case 0:
          text += static_cast<char>(random());
          break;
        case 1:
          text += "é";
          break;
        case 2:
          text += "a ";
          break;
        default:
          text += static_cast<char>(0x80 | random());
          break;
      }
    }
    EXPECT_EQ(bpe->decode(encode(*bpe, text)), text);
    EXPECT_EQ(spm->decode(encode(*spm, text)), text);
    EXPECT_EQ(unigram->decode(encode(*unigram, text)), text);
  }
}

TEST(Tokenizer, BytesWithoutATokenAreLeftOut) {
  SmallVocabulary vocabulary;
  for (const char* letter : {"a", "b"}) vocabulary.add(letter);
  const auto tokenizer = make_tokenizer(vocabulary.source("gpt2", "gpt-2")).value();
  EXPECT_EQ(encode(*tokenizer,
                   "a\xff"
                   "b\x01"),
            (std::vector<Token>{0, 1}));
}

TEST(Tokenizer, UnknownCharactersWithoutByteTokens) {
  SmallVocabulary vocabulary;
  const Token unknown = vocabulary.add("<unk>", TokenKind::unknown);
  const Token a = vocabulary.add("a", TokenKind::normal, -1), space = vocabulary.add("▁", TokenKind::normal, -2);
  const auto unigram = make_tokenizer(vocabulary.source("t5", "")).value();
  EXPECT_EQ(encode(*unigram, "a字字 字"), (std::vector<Token>{a, unknown, space, unknown}));
  const auto spm = make_tokenizer(vocabulary.source("llama", "")).value();
  EXPECT_EQ(encode(*spm, "a字"), (std::vector<Token>{a, unknown}));
}

TEST(Tokenizer, SpacePrefixAtTheBeginningAndBehindSpecialTokens) {
  SmallVocabulary vocabulary;
  const Token control = vocabulary.add("<s>", TokenKind::control);
  const Token a = vocabulary.add("a"), marked = vocabulary.add("▁a", TokenKind::normal, 1), space = vocabulary.add("▁");
  VocabularySource source = vocabulary.source("llama", "");
  source.adds_space_prefix = true;
  const auto tokenizer = make_tokenizer(source).value();
  const Span all{0, 5};
  EXPECT_EQ(encode(*tokenizer, "aa"), (std::vector<Token>{marked, a}));
  EXPECT_EQ(encode(*tokenizer, "a<s>a", {{all}}), (std::vector<Token>{marked, control, marked}));
  EXPECT_EQ(encode(*tokenizer, " a"), (std::vector<Token>{space, marked}));
  EXPECT_EQ(encode(*tokenizer, ""), std::vector<Token>());
  EXPECT_EQ(tokenizer->decode(std::vector<Token>{control, marked, a}), "aa");
}

TEST(Tokenizer, UnigramTakesTheBestPath) {
  SmallVocabulary vocabulary;
  vocabulary.add("<unk>", TokenKind::unknown);
  const Token a = vocabulary.add("a", TokenKind::normal, -3), b = vocabulary.add("b", TokenKind::normal, -3);
  const Token ab = vocabulary.add("ab", TokenKind::normal, -5), bb = vocabulary.add("bb", TokenKind::normal, -1);
  const auto tokenizer = make_tokenizer(vocabulary.source("t5", "")).value();
  EXPECT_EQ(encode(*tokenizer, "ab"), (std::vector<Token>{ab}));
  EXPECT_EQ(encode(*tokenizer, "abb"), (std::vector<Token>{a, bb}));
  EXPECT_EQ(encode(*tokenizer, "abbb"), (std::vector<Token>{ab, bb}));
  EXPECT_EQ(encode(*tokenizer, "b"), (std::vector<Token>{b}));
}

}  // namespace
}  // namespace martlet
