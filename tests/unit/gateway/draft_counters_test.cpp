#include "gateway/draft_counters.h"

#include <gtest/gtest.h>

namespace martlet::gateway {
namespace {

TEST(DraftCounters, SeriesOfOneNameAreAddedUp) {
  const auto counters = read_draft_counters(R"(# TYPE vllm:spec_decode_num_draft_tokens counter
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="a}"} 30.0
vllm:spec_decode_num_draft_tokens_total{engine="1",model_name="a"} 1e1 1700000000
vllm:spec_decode_num_draft_tokens_created{engine="0"} 1.7e9
vllm:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 99.0
vllm:spec_decode_num_accepted_tokens_total 7)");
  ASSERT_TRUE(counters);
  EXPECT_EQ(counters->drafted, 40);
  EXPECT_EQ(counters->accepted, 7);
}

TEST(DraftCounters, OthersCountNone) {
  for (const char* text :
       {"", "\n\n", "up 1\n", "vllm:spec_decode_num_draft_tokens_total{engine=\"0\" 3",
        "vllm:spec_decode_num_draft_tokens_total -3", "vllm:spec_decode_num_draft_tokens_total 1e300",
        "vllm:spec_decode_num_draft_tokens_total nan"}) {
    EXPECT_FALSE(read_draft_counters(text)) << text;
  }
}

}  // namespace
}  // namespace martlet::gateway
