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
  EXPECT_EQ(tree.adopt(0, Tokens{1, 2, 3, 4, 9, 9}).pages, (std::vector<Page>{pages[0], pages[1]}));
  EXPECT_EQ(tree.adopt(0, Tokens{1, 2}).pages, (std::vector<Page>{pages[0]}));
  EXPECT_TRUE(tree.adopt(0, Tokens{8, 9, 3, 4}).pages.empty());
  EXPECT_EQ(pool.references(pages[0]), 4);  // owner, tree, two adopters
}

TEST(PrefixTree, ScopesNeverMeet) {
  PagePool pool(8);
  PrefixTree tree(pool, 2);
  std::vector<Page> pages = take(pool, 1);
  tree.publish(1, Tokens{1, 2}, pages);
  EXPECT_TRUE(tree.adopt(2, Tokens{1, 2}).pages.empty());
  EXPECT_EQ(tree.adopt(2, Tokens{1, 2}).partial, -1);
  EXPECT_EQ(tree.adopt(1, Tokens{1, 2}).pages.size(), 1u);
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
  release(pool, tree.adopt(0, Tokens{1, 2}).pages);  // the first is now the more recent
  EXPECT_TRUE(tree.evict());
  EXPECT_EQ(tree.adopt(0, Tokens{5, 6}).pages.size(), 1u) << "a leaf goes before its parent";
  EXPECT_EQ(tree.adopt(0, Tokens{1, 2}).pages.size(), 2u);
  EXPECT_FALSE(tree.evict()) << "all adopted again";
}

TEST(PrefixTree, PartsOfPagesAreFoundToTheToken) {
  PagePool pool(8);
  PrefixTree tree(pool, 4);
  std::vector<Page> pages = take(pool, 2);
  tree.publish(0, Tokens{1, 2, 3, 4, 5, 6}, pages);
  for (const Tokens& tokens : {Tokens{1, 2, 3, 4, 5, 9}, Tokens{1, 2, 3, 4, 5}}) {
    const PrefixTree::Match match = tree.adopt(0, tokens);
    EXPECT_EQ(match.pages, (std::vector<Page>{pages[0]}));
    EXPECT_EQ(match.partial, pages[1]);
    EXPECT_EQ(match.partial_tokens, 1);
  }
  const PrefixTree::Match beyond = tree.adopt(0, Tokens{1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(beyond.partial_tokens, 2) << "what the owner writes behind it is not known yet";
  const PrefixTree::Match full = tree.adopt(0, Tokens{1, 2, 9});
  EXPECT_TRUE(full.pages.empty());
  EXPECT_EQ(full.partial, pages[0]) << "part of a full page";
  EXPECT_EQ(full.partial_tokens, 2);
}

TEST(PrefixTree, APartGrowsIntoItsPage) {
  PagePool pool(8);
  PrefixTree tree(pool, 4);
  std::vector<Page> mine = take(pool, 1), theirs = take(pool, 1);
  tree.publish(0, Tokens{1, 2}, mine);
  tree.publish(0, Tokens{1, 2, 3}, theirs);  // says more, and so takes its place
  EXPECT_EQ(tree.pages(), 1);
  EXPECT_EQ(tree.adopt(0, Tokens{1, 2, 3, 9}).partial, theirs[0]);
  tree.publish(0, Tokens{1, 2}, mine);  // says less
  EXPECT_EQ(tree.pages(), 1);
  tree.publish(0, Tokens{1, 2, 3, 4}, mine);
  EXPECT_EQ(tree.pages(), 1);
  EXPECT_EQ(tree.adopt(0, Tokens{1, 2, 3, 4}).pages, mine);
  EXPECT_EQ(pool.references(theirs[0]), 2) << "its owner and the adopter";
}

TEST(PrefixTree, EvictionIsTold) {
  PagePool pool(4);
  PrefixTree tree(pool, 2);
  std::vector<Page> pages = take(pool, 2);
  tree.publish(0, Tokens{1, 2, 3, 4}, pages);
  release(pool, pages);
  EXPECT_FALSE(tree.adopt(0, Tokens{7, 7}).evicted);
  EXPECT_TRUE(tree.evict());
  EXPECT_TRUE(tree.evict());
  EXPECT_FALSE(tree.evict());
  EXPECT_EQ(pool.free(), 4);
  EXPECT_TRUE(tree.adopt(0, Tokens{1, 2, 3, 4}).evicted);
  EXPECT_FALSE(tree.adopt(0, Tokens{8, 2, 3, 4}).evicted);
  pages = take(pool, 2);
  tree.publish(0, Tokens{1, 2, 3, 4}, pages);
  EXPECT_FALSE(tree.adopt(0, Tokens{1, 2, 3, 4}).evicted);
}

// Random publishing, adopting, releasing and evicting against a plain note of what each page was filled with.
TEST(PrefixTree, AgreesWithASimpleModel) {
  constexpr size_t kPageTokens = 3;
  std::mt19937 random(11);
  PagePool pool(64);
  {
    PrefixTree tree(pool, kPageTokens);
    std::map<Page, Tokens> contents;  // the whole sequence up to the last slot of the page that was written
    std::vector<std::vector<Page>> held;
    const auto begins = [](const Tokens& part, const Tokens& whole, size_t count) {
      return std::equal(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count), whole.begin());
    };
    for (int round = 0; round < 20000; ++round) {
      Tokens tokens(1 + random() % 14);
      for (Token& token : tokens) token = static_cast<Token>(random() % 3);
      PrefixTree::Match match = tree.adopt(0, tokens);
      std::vector<Page> pages = match.pages;
      for (size_t i = 0; i < pages.size(); ++i) ASSERT_TRUE(begins(contents[pages[i]], tokens, (i + 1) * kPageTokens));
      if (match.partial_tokens > 0) {
        const size_t count = pages.size() * kPageTokens + static_cast<size_t>(match.partial_tokens);
        ASSERT_LE(count, contents[match.partial].size());
        ASSERT_TRUE(begins(contents[match.partial], tokens, count));
        pool.release(match.partial);
      }
      while (pages.size() * kPageTokens < tokens.size()) {
        if (pool.free() == 0) tree.evict();
        const auto page = pool.allocate();
        if (!page) break;
        pages.push_back(*page);
        const size_t end = std::min(tokens.size(), pages.size() * kPageTokens);
        contents[*page] = Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end));
      }
      tokens.resize(std::min(tokens.size(), pages.size() * kPageTokens));
      tree.publish(0, tokens, pages);
      held.push_back(pages);
      while (held.size() > random() % 12) {
        const size_t victim = random() % held.size();
        release(pool, held[victim]);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(victim));
      }
      ASSERT_EQ(pool.used() + pool.free() + pool.reclaimable(), 64);
      const PrefixTree::Match again = tree.adopt(0, tokens);
      ASSERT_EQ(again.pages.size() * kPageTokens + static_cast<size_t>(again.partial_tokens), tokens.size())
          << "what was published is found again";
      release(pool, again.pages);
      if (again.partial_tokens > 0) pool.release(again.partial);
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
