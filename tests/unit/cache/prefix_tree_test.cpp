#include "cache/prefix_tree.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace martlet {
namespace {

using Tokens = std::vector<Token>;

std::vector<Page> take(PagePool& pool, int32_t count) {
  std::vector<Page> pages;
  for (int32_t i = 0; i < count; ++i) pages.push_back(*pool.allocate());
  return pages;
}
void release(PagePool& pool, const std::vector<Page>& pages) {
  for (const Page page : pages) pool.release(page);
}

TEST(PrefixTree, AdoptsTheLongestPrefixInWholePages) {
  PagePool pool(8);
  PrefixTree tree(pool, 2);
  std::vector<Page> pages = take(pool, 3);
  tree.publish(0, Tokens{1, 2, 3, 4, 5, 6}, pages);
  EXPECT_EQ(tree.adopt(0, Tokens{1, 2, 3, 4, 9, 9}), (std::vector<Page>{pages[0], pages[1]}));
  EXPECT_EQ(tree.adopt(0, Tokens{1, 2, 3}), (std::vector<Page>{pages[0]}));
  EXPECT_TRUE(tree.adopt(0, Tokens{1, 9, 3, 4}).empty());
  EXPECT_EQ(pool.references(pages[0]), 4);  // owner, tree, two adopters
}

TEST(PrefixTree, ScopesNeverMeet) {
  PagePool pool(8);
  PrefixTree tree(pool, 2);
  std::vector<Page> pages = take(pool, 1);
  tree.publish(1, Tokens{1, 2}, pages);
  EXPECT_TRUE(tree.adopt(2, Tokens{1, 2}).empty());
  EXPECT_EQ(tree.adopt(1, Tokens{1, 2}).size(), 1u);
}

TEST(PrefixTree, ASecondPageForTheSameTokensIsReplacedByTheFirst) {
  PagePool pool(8);
  PrefixTree tree(pool, 2);
  std::vector<Page> first = take(pool, 2), second = take(pool, 2);
  tree.publish(0, Tokens{1, 2, 3, 4}, first);
  tree.publish(0, Tokens{1, 2, 3, 4}, second);
  EXPECT_EQ(first, second);
  EXPECT_EQ(pool.free(), 6);
  EXPECT_EQ(tree.pages(), 2);
}

TEST(PrefixTree, EvictsLeastRecentlyUsedLeavesAndNothingInUse) {
  PagePool pool(8);
  PrefixTree tree(pool, 1);
  std::vector<Page> a = take(pool, 2), b = take(pool, 2);
  tree.publish(0, Tokens{1, 2}, a);
  tree.publish(0, Tokens{5, 6}, b);
  EXPECT_FALSE(tree.evict()) << "their owners still hold them";
  release(pool, a);
  release(pool, b);
  release(pool, tree.adopt(0, Tokens{1, 2}));  // the first is now the more recent
  EXPECT_TRUE(tree.evict());
  EXPECT_EQ(tree.adopt(0, Tokens{5, 6}).size(), 1u) << "a leaf goes before its parent";
  EXPECT_EQ(tree.adopt(0, Tokens{1, 2}).size(), 2u);
  EXPECT_FALSE(tree.evict()) << "all adopted again";
}

// Random publishing, adopting, releasing and evicting against a plain list of what was published.
TEST(PrefixTree, AgreesWithASimpleModel) {
  std::mt19937 random(11);
  PagePool pool(64);
  {
    PrefixTree tree(pool, 2);
    std::map<Page, Tokens> contents;  // what each page was filled with: the whole prefix up to its end
    std::vector<std::vector<Page>> held;
    for (int round = 0; round < 20000; ++round) {
      Tokens tokens(2 * (1 + random() % 5));
      for (Token& token : tokens) token = static_cast<Token>(random() % 3);
      std::vector<Page> pages = tree.adopt(0, tokens);
      for (size_t i = 0; i < pages.size(); ++i)
        ASSERT_EQ(contents[pages[i]], Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(2 * i + 2)));
      while (pages.size() < tokens.size() / 2) {
        if (pool.free() == 0) tree.evict();
        const auto page = pool.allocate();
        if (!page) break;
        pages.push_back(*page);
        contents[*page] = Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(2 * pages.size()));
      }
      tree.publish(0, tokens, pages);
      held.push_back(pages);
      while (held.size() > random() % 12) {
        const size_t victim = random() % held.size();
        release(pool, held[victim]);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(victim));
      }
      ASSERT_EQ(pool.used() + pool.free() + pool.reclaimable(), 64);
    }
    for (const auto& pages : held) release(pool, pages);
    while (tree.evict()) {
    }
    EXPECT_EQ(pool.free(), 64) << "everything that nobody holds can be had back";
  }
  EXPECT_EQ(pool.free(), 64);
}

}  // namespace
}  // namespace martlet
