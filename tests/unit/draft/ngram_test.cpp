#include "draft/ngram_drafter.h"

#include <gtest/gtest.h>

#include <random>

namespace martlet {
namespace {

using Tokens = std::vector<Token>;

// The definition: the longest earlier occurrence of the end, at most kLongest, the latest of several, by comparing all.
SuffixIndex::Match longest_by_definition(const Tokens& text) {
  const auto size = static_cast<int32_t>(text.size());
  SuffixIndex::Match best;
  for (int32_t next = size - 1; next >= SuffixIndex::kShortest; --next) {
    int32_t length = 0;
    while (length < SuffixIndex::kLongest && length < next &&
           text[static_cast<size_t>(next - 1 - length)] == text[static_cast<size_t>(size - 1 - length)])
      ++length;
    if (length >= SuffixIndex::kShortest && length > best.length) best = {next, length};
  }
  return best;
}

TEST(SuffixIndex, FindsTheLongestEarlierOccurrenceWhileTheTextGrows) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    Tokens text;
    SuffixIndex index;
    for (int i = 0; i < 150; ++i) {
      // Chains stay shorter than the index looks: with 12 tokens a pair comes back about once in 144.
      text.push_back(static_cast<Token>(random() % 12));
      if (i % 7 == 3 && text.size() > 20) text.insert(text.end(), text.begin() + 5, text.begin() + 5 + i % 11);
      index.extend(text);
      const auto found = index.find(text), expected = longest_by_definition(text);
      ASSERT_EQ(found.length, expected.length) << i;
      if (found.length > 0 && found.length < SuffixIndex::kLongest) {
        ASSERT_EQ(found.next, expected.next);
      }
    }
  }
}

TEST(SuffixIndex, ShortTextsHaveNoMatch) {
  SuffixIndex index;
  for (const Tokens& text : {Tokens{}, Tokens{1}, Tokens{1, 1}}) {
    index.extend(text);
    EXPECT_EQ(index.find(text).length, 0);
  }
  const Tokens text{1, 1, 1};
  index.extend(text);
  EXPECT_EQ(index.find(text).length, 2);
}

Draft draft_for(const Tokens& text, int32_t length, NgramDrafter& drafter) {
  Draft draft;
  const Sampler sampler({}, 1);
  DraftTask task{7, text, &sampler, length, &draft};
  EXPECT_TRUE(drafter.draft(
      {&task, 1}, [](size_t, int32_t, int32_t) { return Verdict::more; }, 1));
  return draft;
}

TEST(NgramDrafter, CopiesWhatFollowedAndGoesRoundInALoop) {
  NgramDrafter drafter;
  EXPECT_EQ(draft_for({1, 2, 3, 4, 5, 6, 1, 2, 3}, 4, drafter).tokens, (Tokens{4, 5, 6, 1}));
  drafter.forget(7);
  const Draft loop = draft_for({9, 1, 2, 3, 1, 2, 3, 1, 2, 3}, 8, drafter);
  EXPECT_EQ(loop.tokens, (Tokens{1, 2, 3, 1, 2, 3, 1, 2}));
  EXPECT_LT(loop.confidence.front(), loop.confidence.back());
  drafter.forget(7);
  EXPECT_TRUE(draft_for({1, 2, 3, 4, 5, 6}, 4, drafter).tokens.empty());
}

TEST(NgramDrafter, StopsWhereTheGateSays) {
  NgramDrafter drafter;
  Draft draft;
  const Sampler sampler({}, 1);
  const Tokens text{1, 2, 3, 4, 5, 6, 1, 2};
  DraftTask task{1, text, &sampler, 6, &draft};
  ASSERT_TRUE(drafter.draft(
      {&task, 1}, [](size_t, int32_t position, int32_t) { return position < 1 ? Verdict::more : Verdict::last; }, 1));
  EXPECT_EQ(draft.tokens, (Tokens{3, 4}));
  draft.clear();
  ASSERT_TRUE(drafter.draft(
      {&task, 1}, [](size_t, int32_t position, int32_t) { return position < 1 ? Verdict::more : Verdict::drop; }, 1));
  EXPECT_EQ(draft.tokens, (Tokens{3}));
}

TEST(AnswerIndex, IsForgottenFromItsOldEndAndHeldApartByScope) {
  AnswerIndex index(10);
  index.add(1, Tokens{1, 2, 3, 4, 5});
  index.add(2, Tokens{1, 2, 9, 9});
  const auto follows = [&](int64_t scope, const Tokens& text) {
    const auto match = index.find(scope, text);
    const auto after = match.length > 0 ? index.after(match) : std::span<const Token>();
    return Tokens(after.begin(), after.end());
  };
  EXPECT_EQ(follows(1, {7, 1, 2}), (Tokens{3, 4, 5}));
  EXPECT_EQ(follows(2, {7, 1, 2}), (Tokens{9, 9}));
  EXPECT_TRUE(follows(3, {7, 1, 2}).empty());
  EXPECT_TRUE(follows(1, {4, 5}).empty()) << "nothing follows the end of an answer";
  EXPECT_TRUE(follows(1, {5, 1}).empty()) << "no match goes over the end of an answer";
  for (Token t = 20; t < 60; t += 4) index.add(1, Tokens{t, t + 1, t + 2, t + 3});
  EXPECT_TRUE(follows(1, {7, 1, 2}).empty());
  EXPECT_EQ(follows(1, {56, 57}), (Tokens{58, 59}));
  EXPECT_EQ(follows(1, {52, 53}), (Tokens{54, 55}));
}

TEST(AnswerIndex, IsTheSameAsALookThroughAllAnswers) {
  std::mt19937 random(4);
  AnswerIndex index(400);
  std::vector<std::pair<int64_t, Tokens>> kept;
  for (int round = 0; round < 400; ++round) {
    Tokens answer;
    for (size_t i = 0; i < random() % 12; ++i) answer.push_back(static_cast<Token>(random() % 4));
    kept.emplace_back(random() % 2, answer);
    index.add(kept.back().first, answer);
    const auto scope = static_cast<int64_t>(random() % 2);
    Tokens text;
    for (size_t i = 0; i < random() % 9; ++i) text.push_back(static_cast<Token>(random() % 4));
    const SuffixIndex::Match match = index.find(scope, text);
    if (match.length == 0) continue;
    Tokens found(text.end() - match.length, text.end());
    const auto after = index.after(match);
    found.insert(found.end(), after.begin(), after.end());
    const bool somewhere = std::any_of(kept.begin(), kept.end(), [&](const auto& k) {
      return k.first == scope && k.second.size() >= found.size() &&
             std::equal(found.begin(), found.end(), k.second.end() - static_cast<std::ptrdiff_t>(found.size()));
    });
    EXPECT_TRUE(somewhere) << round;
  }
}

TEST(NgramDrafter, LooksInEarlierAnswersOfTheSameScopeWhereItIsTold) {
  for (const int32_t history : {0, 100}) {
    NgramDrafter drafter(history);
    drafter.keep(0, Tokens{1, 2, 3, 4, 5});
    drafter.keep(1, Tokens{1, 2, 8, 8, 8});
    EXPECT_EQ(draft_for({7, 7, 1, 2}, 8, drafter).tokens, history > 0 ? (Tokens{3, 4, 5}) : Tokens());
    drafter.forget(7);
    EXPECT_EQ(draft_for({1, 2, 6, 6, 9, 1, 2}, 2, drafter).tokens, (Tokens{6, 6})) << "its own text comes first";
  }
}

}  // namespace
}  // namespace martlet
