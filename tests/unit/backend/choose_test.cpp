#include "backend/choose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "backend/exponential.h"

namespace martlet {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_logits(size_t count, uint32_t seed, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> out(count);
  for (float& x : out) x = normal(random);
  return out;
}

// The documented order, straight from its words: full sorts, doubles, no shortcuts. Returns token -> probability.
std::map<Token, double> expected_distribution(const std::vector<float>& logits, const Sampling& s) {
  struct Item {
    Token token;
    double p, key;
  };
  std::vector<Item> items;
  const double largest = *std::max_element(logits.begin(), logits.end());
  for (size_t i = 0; i < logits.size(); ++i)
    items.push_back({static_cast<Token>(i), std::exp((logits[i] - largest) / s.temperature), 0});
  const auto normalise = [&] {
    double sum = 0;
    for (const Item& item : items) sum += item.p;
    for (Item& item : items) item.p /= sum;
  };
  const auto keep = [&](double mass) {
    std::sort(items.begin(), items.end(),
              [](const Item& a, const Item& b) { return a.key != b.key ? a.key < b.key : a.token < b.token; });
    double sum = 0;
    size_t n = 0;
    while (n < items.size() && (sum < mass || n == 0)) sum += items[n++].p;
    items.resize(n);
    normalise();
  };
  normalise();
  for (Item& item : items) item.key = -item.p;
  if (s.top_k > 0 && s.top_k < static_cast<int32_t>(items.size())) {
    keep(2);
    items.resize(static_cast<size_t>(s.top_k));
    normalise();
  }
  if (s.typical_p < 1) {
    double entropy = 0;
    for (const Item& item : items) entropy -= item.p * std::log(item.p);
    for (Item& item : items) item.key = std::abs(-std::log(item.p) - entropy);
    keep(s.typical_p);
  }
  if (s.top_p < 1) {
    for (Item& item : items) item.key = -item.p;
    keep(s.top_p);
  }
  double best = 0;
  for (const Item& item : items) best = std::max(best, item.p);
  std::erase_if(items, [&](const Item& item) { return item.p < s.min_p * best; });
  normalise();
  std::map<Token, double> out;
  for (const Item& item : items) out[item.token] = item.p;
  return out;
}

// Draws many times; no token outside the expected set, and a chi-square that a true draw exceeds once in 10^6. With
// `q`, each draw verifies a draft that was drawn from it.
void expect_distribution(const std::vector<float>& logits, Sampling sampling,
                         const std::vector<TokenProbability>& q = {}) {
  const auto expected = expected_distribution(logits, sampling);
  constexpr int kDraws = 20'000;
  std::map<Token, int> counts;
  Chooser chooser;
  for (int i = 0; i < kDraws; ++i) {
    sampling.draw = static_cast<uint64_t>(i);
    Choice choice{.sampling = sampling, .q = q};
    double left = q.empty() ? 0 : uniform(sampling.seed, sampling.draw, Stream::draft);
    for (const TokenProbability& t : q) {
      choice.draft = t.token;
      if ((left -= t.probability) < 0) break;
    }
    const Chosen chosen = chooser.choose(logits, choice, {});
    ASSERT_TRUE(expected.contains(chosen.token)) << chosen.token;
    ++counts[chosen.token];
  }
  double chi = 0, rest_expected = 0, rest_seen = 0;
  int cells = 0;
  const auto add = [&](double seen, double wanted) {
    chi += (seen - wanted) * (seen - wanted) / wanted;
    ++cells;
  };
  for (const auto& [token, p] : expected) {
    if (p * kDraws >= 10) {
      add(counts[token], p * kDraws);
    } else {
      rest_expected += p * kDraws;
      rest_seen += counts[token];
    }
  }
  if (rest_expected >= 10) add(rest_seen, rest_expected);
  const double freedom = std::max(1, cells - 1);
  // Wilson and Hilferty: the cube root of chi2 / k is nearly normal; 4.75 sigma is one in 10^6.
  const double limit = freedom * std::pow(1 - 2 / (9 * freedom) + 4.75 * std::sqrt(2 / (9 * freedom)), 3);
  EXPECT_LT(chi, limit) << cells << " cells";
}

TEST(Choose, GreedyTakesTheSmallestTokenOnATie) {
  for (size_t size : {1u, 7u, 64u, 65u, 1000u}) {
    std::vector<float> logits(size, -1);
    logits[size / 3] = 2;
    logits[size - 1] = 2;
    Chooser chooser;
    EXPECT_EQ(chooser.choose(logits, {.sampling = {.temperature = 0}}, {}).token, static_cast<Token>(size / 3));
    EXPECT_EQ(chooser.choose(logits, {.sampling = {.temperature = 1e-38f}}, {}).token, static_cast<Token>(size / 3));
  }
}

TEST(Choose, GreedyMatchesMaxElementOnManyRows) {
  Chooser chooser;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const auto logits = random_logits(1 + seed * 7, seed, 3);
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    EXPECT_EQ(chooser.choose(logits, {.sampling = {.temperature = 0}}, {}).token, best);
  }
}

TEST(Choose, DrawsFollowTheDistribution) {
  const auto logits = random_logits(300, 1, 2);
  expect_distribution(logits, {.temperature = 1, .seed = 1});
  expect_distribution(logits, {.temperature = 0.5f, .seed = 2});
  expect_distribution(logits, {.temperature = 1, .top_k = 5, .seed = 3});
  expect_distribution(logits, {.temperature = 1.3f, .top_k = 1, .seed = 3});
  expect_distribution(logits, {.temperature = 1, .top_p = 0.7f, .seed = 4});
  expect_distribution(logits, {.temperature = 1, .top_p = 0, .seed = 4});
  expect_distribution(logits, {.temperature = 1, .min_p = 0.1f, .seed = 5});
  expect_distribution(logits, {.temperature = 1, .top_p = 0.9f, .min_p = 0.05f, .seed = 6});
  expect_distribution(logits, {.temperature = 1, .typical_p = 0.5f, .seed = 7});
  expect_distribution(logits,
                      {.temperature = 2, .top_k = 100, .top_p = 0.8f, .min_p = 0.02f, .typical_p = 0.9f, .seed = 8});
  expect_distribution(random_logits(5000, 3, 0.1f), {.temperature = 1, .top_p = 0.05f, .seed = 9});
}

// What a device gives of a row: `count` candidates, or -1, the last ones first.
Excerpt excerpt_of(const std::vector<float>& logits, const Sampling& sampling, int64_t count) {
  Excerpt out = {};
  const auto size = static_cast<int64_t>(logits.size());
  const auto best = std::max_element(logits.begin(), logits.end());
  out.largest = *best;
  out.best = static_cast<Token>(best - logits.begin());
  std::vector<double> groups, blocks;
  for (int64_t first = 0; first < size; first += kWeightBlock) {
    const auto block = std::span(logits).subspan(static_cast<size_t>(first));
    blocks.push_back(sum_of_exponentials(block.first(std::min<size_t>(block.size(), kWeightBlock)), out.largest,
                                         1 / sampling.temperature));
    if (blocks.size() % kBlocksOfGroup == 1) groups.push_back(0);
    groups.back() += blocks.back();
  }
  for (const double group : groups) out.total += group;
  out.left = uniform(sampling.seed, sampling.draw) * out.total;
  size_t g = 0;
  while (g + 1 < groups.size() && out.left >= groups[g]) out.left -= groups[g++];
  size_t b = g * kBlocksOfGroup;
  while (b + 1 < std::min(blocks.size(), (g + 1) * kBlocksOfGroup) && out.left >= blocks[b]) out.left -= blocks[b++];
  out.first = static_cast<Token>(b * kWeightBlock);
  for (int64_t i = 0; i < kWeightBlock; ++i)
    out.block[i] = out.first + i < size ? logits[static_cast<size_t>(out.first + i)] : -kInfinity;
  out.count = static_cast<int32_t>(std::min(count, size));
  std::vector<Token> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Token>(i);
  std::sort(order.begin(), order.end(), [&](Token a, Token b) {
    return logits[static_cast<size_t>(a)] != logits[static_cast<size_t>(b)]
               ? logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)]
               : a < b;
  });
  for (int32_t i = 0; i < out.count; ++i) {
    const Token token = order[static_cast<size_t>(out.count - 1 - i)];
    out.candidates[i] = {token, logits[static_cast<size_t>(token)]};
  }
  return out;
}

TEST(Choose, AnExcerptGivesTheTokenOfTheRow) {
  const Sampling samplings[] = {{.temperature = 1},
                                {.temperature = 0.3f},
                                {.temperature = 100},
                                {.temperature = 1, .top_k = 1},
                                {.temperature = 1.5f, .top_k = 40},
                                {.temperature = 1, .top_p = 0.9f},
                                {.temperature = 0.7f, .top_p = 0},
                                {.temperature = 1, .min_p = 0.2f},
                                {.temperature = 1, .top_p = 0.8f, .min_p = 0.1f},
                                {.temperature = 0.9f, .top_k = 50, .top_p = 0.9f, .min_p = 0.02f}};
  Chooser whole, part;
  int given = 0, all = 0;
  for (const size_t size : {1u, 5u, 63u, 64u, 65u, 1001u, 4096u, 4099u, 20000u}) {
    std::vector<float> logits = random_logits(size, static_cast<uint32_t>(size), 2.5f);
    for (size_t i = 0; i < size; i += 3) logits[i] = std::round(logits[i]);  // ties
    for (Sampling sampling : samplings) {
      if (!takes_excerpt({.sampling = sampling}, static_cast<int64_t>(size))) continue;
      for (sampling.draw = 0; sampling.draw < 40; ++sampling.draw, ++all) {
        const Excerpt excerpt = excerpt_of(logits, sampling, sampling.draw % 2 == 0 ? kMostCandidates : 200);
        const std::optional<Token> token = part.draw(excerpt, sampling);
        if (!token) continue;
        ++given;
        EXPECT_EQ(*token, whole.choose(logits, {.sampling = sampling}, {}).token)
            << size << " logits, temperature " << sampling.temperature << ", top-k " << sampling.top_k << ", draw "
            << sampling.draw;
      }
    }
  }
  EXPECT_GT(given, all * 9 / 10);
}

TEST(Choose, AnExcerptThatIsNotEnoughIsRefused) {
  const auto logits = random_logits(3000, 5, 1);
  Chooser chooser;
  const auto draws = [&](const Sampling& sampling, int64_t count) {
    return chooser.draw(excerpt_of(logits, sampling, count), sampling).has_value();
  };
  EXPECT_TRUE(draws({}, -1));
  EXPECT_FALSE(draws({.top_k = 40}, 39));
  EXPECT_TRUE(draws({.top_k = 40}, 40));
  EXPECT_FALSE(draws({.top_k = 40}, -1));
  EXPECT_FALSE(draws({.top_p = 0.9f}, 20));
  EXPECT_TRUE(draws({.top_p = 0.01f}, 20));
  EXPECT_FALSE(draws({.top_p = 0.5f}, -1));
  EXPECT_FALSE(draws({.min_p = 0.5f}, -1));
}

TEST(Choose, ExcerptsAreForPlainDraws) {
  const std::vector<Adjust> adjust = {{3, 2, 0}};
  const std::vector<TokenProbability> q = {{3, 1}};
  const uint32_t allowed[100] = {};
  const auto takes = [](const Choice& choice) { return takes_excerpt(choice, 3000); };
  EXPECT_TRUE(takes({}));
  EXPECT_TRUE(takes({.sampling = {.temperature = 0.5f, .top_k = 1024, .top_p = 0.5f, .min_p = 0.5f}}));
  EXPECT_FALSE(takes({.sampling = {.temperature = 0}}));
  EXPECT_FALSE(takes({.sampling = {.top_k = 1025}}));
  EXPECT_FALSE(takes_excerpt({.sampling = {.top_k = 100}}, 100));
  EXPECT_FALSE(takes({.sampling = {.typical_p = 0.5f}}));
  EXPECT_FALSE(takes({.allowed = allowed}));
  EXPECT_FALSE(takes({.adjust = adjust}));
  EXPECT_FALSE(takes({.draft = 3, .q = q}));
  EXPECT_FALSE(takes({.score = 3}));
  EXPECT_FALSE(takes({.top = 0}));
}

TEST(Choose, SeedAndDrawFixTheToken) {
  const auto logits = random_logits(1000, 5, 1);
  Chooser one, other;
  int different = 0;
  for (uint64_t draw = 0; draw < 100; ++draw) {
    const Sampling sampling = {.temperature = 1, .seed = 42, .draw = draw};
    const Token token = one.choose(logits, {.sampling = sampling}, {}).token;
    other.choose(random_logits(70, static_cast<uint32_t>(draw), 1), {.sampling = {.seed = 9}}, {});
    EXPECT_EQ(other.choose(logits, {.sampling = sampling}, {}).token, token);
    different += one.choose(logits, {.sampling = {.seed = 43, .draw = draw}}, {}).token != token;
  }
  EXPECT_GT(different, 80);
}

TEST(Choose, UniformIsUniform) {
  std::vector<int> cells(64);
  for (uint64_t i = 0; i < 64'000; ++i) ++cells[static_cast<size_t>(uniform(i / 1000, i % 1000) * 64)];
  double chi = 0;
  for (int seen : cells) chi += (seen - 1000.0) * (seen - 1000.0) / 1000;
  EXPECT_LT(chi, 130);
  EXPECT_GT(chi, 20);
}

TEST(Choose, LogprobsAreOfTheUnmodifiedDistribution) {
  const auto logits = random_logits(2000, 8, 3);
  double sum = 0;
  for (float x : logits) sum += std::exp(double{x});
  std::vector<Token> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Token>(i);
  std::sort(order.begin(), order.end(), [&](Token a, Token b) { return logits[a] > logits[b]; });

  const std::vector<Adjust> adjust = {{.token = order[0], .subtract = kInfinity}, {.token = order[5], .subtract = -50}};
  std::vector<TokenLogprob> top(20);
  Chooser chooser;
  const Chosen chosen = chooser.choose(logits, {.sampling = {.temperature = 0}, .adjust = adjust, .top = 20}, top);
  EXPECT_EQ(chosen.token, order[5]);
  EXPECT_NEAR(chosen.logprob, logits[order[5]] - std::log(sum), 1e-6);
  for (size_t i = 0; i < top.size(); ++i) {
    EXPECT_EQ(top[i].token, order[i]);
    EXPECT_NEAR(top[i].logprob, logits[order[i]] - std::log(sum), 1e-6);
  }
  const Chosen scored = chooser.choose(logits, {.score = order[100], .top = 0}, {});
  EXPECT_EQ(scored.token, order[100]);
  EXPECT_NEAR(scored.logprob, logits[order[100]] - std::log(sum), 1e-6);
}

TEST(Choose, TopBeyondTheVocabulary) {
  const std::vector<float> logits = {1, 3, 2};
  std::vector<TokenLogprob> top(5);
  Chooser().choose(logits, {.sampling = {.temperature = 0}, .top = 5}, top);
  EXPECT_EQ(top[0].token, 1);
  EXPECT_EQ(top[2].token, 0);
  EXPECT_EQ(top[3].token, -1);
}

TEST(Choose, PenaltiesAndMask) {
  const std::vector<float> logits = {4, 3, -1, 0};
  Chooser chooser;
  const auto greedy = [&](std::vector<Adjust> adjust, const uint32_t* allowed) {
    return chooser.choose(logits, {.sampling = {.temperature = 0}, .allowed = allowed, .adjust = adjust}, {}).token;
  };
  EXPECT_EQ(greedy({{.token = 0, .divide = 2}}, nullptr), 1);  // 4 / 2
  EXPECT_EQ(greedy({{.token = 0, .subtract = 2}}, nullptr), 1);
  EXPECT_EQ(greedy({{.token = 2, .divide = 10, .subtract = -20}}, nullptr), 2);  // -1 * 10 + 20
  const uint32_t allowed = 0b1100, none = 0;
  EXPECT_EQ(greedy({}, &allowed), 3);
  EXPECT_EQ(greedy({}, &none), -1);
}

std::vector<TokenProbability> random_distribution(const std::vector<Token>& tokens, uint32_t seed, float spread) {
  const auto logits = random_logits(tokens.size(), seed, spread);
  std::vector<TokenProbability> q;
  double sum = 0;
  for (size_t i = 0; i < tokens.size(); ++i) q.push_back({tokens[i], std::exp(logits[i])});
  for (const TokenProbability& t : q) sum += t.probability;
  for (TokenProbability& t : q) t.probability = static_cast<float>(t.probability / sum);
  return q;
}

// Whatever the drafts are drawn from, what comes out has the distribution that it would have without them.
TEST(Choose, VerifiedDraftsFollowTheTargetsDistribution) {
  const auto logits = random_logits(40, 1, 1.5f);
  std::vector<Token> all, some;
  for (Token t = 0; t < 40; ++t) {
    all.push_back(t);
    if (t % 3 == 0) some.push_back(t);
  }
  uint64_t seed = 100;
  const Sampling samplings[] = {{.temperature = 1},
                                {.temperature = 0.4f},
                                {.top_k = 8},
                                {.top_p = 0.8f},
                                {.min_p = 0.1f},
                                {.typical_p = 0.7f},
                                {.temperature = 1.3f, .top_k = 20, .top_p = 0.9f, .min_p = 0.02f}};
  for (Sampling sampling : samplings) {
    for (const auto& q : {random_distribution(all, 2, 1), random_distribution(some, 3, 2),
                          random_distribution({7}, 4, 1), random_distribution({0, 39}, 5, 1)}) {
      sampling.seed = ++seed;
      expect_distribution(logits, sampling, q);
    }
    // Drafts from the very distribution itself are all right.
    std::vector<TokenProbability> own;
    for (const auto& [token, p] : expected_distribution(logits, sampling))
      own.push_back({token, static_cast<float>(p)});
    expect_distribution(logits, sampling, own);
  }
}

TEST(Choose, DraftsFromTheTargetsOwnDistributionAreAccepted) {
  const auto logits = random_logits(40, 1, 1.5f);
  std::vector<TokenProbability> own;
  for (const auto& [token, p] : expected_distribution(logits, {})) own.push_back({token, static_cast<float>(p)});
  Chooser chooser;
  for (uint64_t i = 0; i < 1000; ++i) {
    const Token draft = own[i % own.size()].token;
    EXPECT_EQ(chooser.choose(logits, {.sampling = {.seed = 3, .draw = i}, .draft = draft, .q = own}, {}).token, draft);
  }
}

TEST(Choose, ADraftThatMayNotBeDrawnIsNeverChosen) {
  const auto logits = random_logits(40, 1, 1.5f);
  const std::vector<Adjust> ban = {{7, 1, kInfinity}};
  const std::vector<TokenProbability> q = {{7, 1.0f}};
  Chooser chooser;
  for (uint64_t i = 0; i < 1000; ++i) {
    const Choice choice{.sampling = {.seed = 3, .draw = i}, .adjust = ban, .draft = 7, .q = q};
    EXPECT_NE(chooser.choose(logits, choice, {}).token, 7);
  }
}

TEST(ChooseFaults, D14_NumericErrors) {
  Chooser chooser;
  for (size_t at : {0u, 5u, 99u}) {
    auto logits = random_logits(100, 1, 1);
    logits[at] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(chooser.choose(logits, {}, {}).numeric_error);
    logits[at] = kInfinity;
    EXPECT_TRUE(chooser.choose(logits, {}, {}).numeric_error);
    logits[at] = -kInfinity;
    EXPECT_FALSE(chooser.choose(logits, {}, {}).numeric_error);
  }
  EXPECT_TRUE(chooser.choose(std::vector<float>(100, -kInfinity), {}, {}).numeric_error);
}

}  // namespace
}  // namespace martlet
