#include "cli/chat/generate.h"

#include <gtest/gtest.h>

namespace martlet::cli {
namespace {

Answer answer() {
  Answer answer;
  answer.finish.usage = {.prompt_tokens = 38, .output_tokens = 64};
  answer.finish.usage.prefill_seconds = 0.5;
  answer.finish.usage.decode_seconds = 1;
  answer.seconds = 2;
  return answer;
}

TEST(Summary, OfAnAnswerWithoutDrafts) {
  EXPECT_EQ(answer().summary(),
            "TTFT 0.00 s, prefill 76 tokens/s (38 tokens), decode 63.0 tokens/s (64 tokens), effective 32.0 tokens/s");
}

TEST(Summary, TellsDraftsByPositionTheirPriceAndTheTimeWithout) {
  Answer drafted = answer();
  DraftCounts& drafts = drafted.finish.usage.drafts;
  drafts = {.drafted = {12, 10, 8}, .accepted = {12, 5, 2}, .price_seconds = 0.314};
  EXPECT_NE(drafted.summary().find("(64 tokens, 19 of 30 drafts right (100 50 25 % by position), price 0.31 s), eff"),
            std::string::npos)
      << drafted.summary();
  drafts.off_seconds = 1.25;
  EXPECT_NE(drafted.summary().find("price 0.31 s, drafts off for 1.25 s), eff"), std::string::npos);
  drafts.drafted = {};
  EXPECT_NE(drafted.summary().find("(64 tokens, drafts off for 1.25 s), eff"), std::string::npos);
}

}  // namespace
}  // namespace martlet::cli
