#include "bench/contract.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "shared.h"

namespace martlet::bench {
namespace {

TEST(Contract, SaysWhatVersionOneIs) {
  const Contract& c = contract();
  EXPECT_EQ(c.version, 1);
  EXPECT_EQ(c.max_tokens, 256);
  EXPECT_EQ(c.single.warmup, 3);
  EXPECT_EQ(c.single.measured, 20);
  EXPECT_EQ(c.sweep.concurrency, (std::vector<int>{1, 4, 8, 16, 32}));
  EXPECT_EQ(c.sweep.warmup, 4);
  EXPECT_EQ(c.sweep.measured, 16);
  EXPECT_EQ(c.dispatch.instances, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(c.dispatch.warmup_per_instance, 2);
  EXPECT_EQ(c.dispatch.offered_at_once, 16);
  EXPECT_EQ(c.prompts().size(), 12u);
  EXPECT_EQ(c.prompts().front(), "What is the boiling point of water at sea level?");
}

TEST(Contract, IsTheReferenceToTheByte) {
  MARTLET_NEEDS_SHARED("bench/prompts.json");
  std::ifstream in(shared_path("bench/prompts.json"), std::ios::binary);
  std::ostringstream reference;
  reference << in.rdbuf();
  EXPECT_EQ(contract_text(), reference.str());
}

}  // namespace
}  // namespace martlet::bench
