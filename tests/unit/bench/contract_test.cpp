#include "bench/contract.h"

#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>

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

// The text of each version. A text that has changed is a new version: give it its number, and a line here.
const std::map<int, std::string> kTexts = {
    {1, "9ab7fa038685c3598dd30209cba59c9fd219106763806614432a192a98538e13"},
};

TEST(Contract, ATextHasOneVersion) {
  const std::string_view text = contract_text();
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash);
  std::string hex;
  for (const unsigned char byte : hash) hex += fmt::format("{:02x}", byte);
  ASSERT_TRUE(kTexts.contains(contract().version)) << contract().version;
  EXPECT_EQ(hex, kTexts.at(contract().version)) << "of version " << contract().version;
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
