#include "cache/page_pool.h"

#include <gtest/gtest.h>

namespace martlet {
namespace {

TEST(PagePool, PagesComeBackWhenNobodyHoldsThem) {
  PagePool pool(2);
  const Page a = *pool.allocate(), b = *pool.allocate();
  EXPECT_NE(a, b);
  EXPECT_FALSE(pool.allocate());
  pool.retain(a);
  pool.release(a);
  EXPECT_EQ(pool.free(), 0);
  pool.release(a);
  EXPECT_EQ(pool.free(), 1);
  EXPECT_EQ(*pool.allocate(), a);
}

TEST(PagePool, ReclaimableAreThoseThatOnlyTheTreeHolds) {
  PagePool pool(3);
  const Page page = *pool.allocate();
  pool.retain_for_tree(page);
  EXPECT_EQ(pool.reclaimable(), 0);
  EXPECT_EQ(pool.used(), 1);
  pool.release(page);
  EXPECT_EQ(pool.reclaimable(), 1);
  EXPECT_EQ(pool.used(), 0);
  pool.retain(page);
  EXPECT_EQ(pool.reclaimable(), 0);
  pool.release(page);
  pool.release_for_tree(page);
  EXPECT_EQ(pool.reclaimable(), 0);
  EXPECT_EQ(pool.free(), 3);
}

}  // namespace
}  // namespace martlet
