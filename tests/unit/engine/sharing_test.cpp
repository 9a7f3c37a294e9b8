// Prefixes shared to the token, and why one was not.

#include "engine/manual_engine.h"

namespace martlet {
namespace {

std::vector<Token> joined(std::vector<Token> a, const std::vector<Token>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Usage ask(ManualEngine& engine, const std::vector<Token>& prompt, int32_t tokens = 3) {
  const auto sink = engine.submit(greedy(prompt, tokens));
  engine.run();
  EXPECT_EQ(sink->output(), expected_output(prompt, tokens));
  return sink->wait().usage;
}

TEST(Sharing, ToTheToken) {
  ManualEngine engine({.pages = 256});
  std::mt19937 random(1);
  const std::vector<Token> common = random_tokens(random, 47);  // eleven pages and three tokens
  ask(engine, joined(common, {1, 2, 3}));
  for (int32_t i = 0; i < 8; ++i) {
    const Usage usage = ask(engine, joined(common, joined({500 + i}, random_tokens(random, 20))));
    EXPECT_EQ(usage.cached_tokens, 47);
    EXPECT_EQ(usage.miss, PrefixMiss::differs);
  }
  // Every length of a shared prefix.
  const std::vector<Token> all = random_tokens(random, 40);
  ask(engine, all);
  for (int32_t length = 1; length < 40; ++length) {
    std::vector<Token> prompt(all.begin(), all.begin() + length);
    prompt.push_back((all[static_cast<size_t>(length)] + 1 + length) % kFakeVocabulary);
    prompt.push_back(7);
    EXPECT_EQ(ask(engine, prompt).cached_tokens, length);
  }
}

TEST(Sharing, APromptAskedAgainIsComputedOnlyAtItsLastToken) {
  ManualEngine engine({});
  std::mt19937 random(2);
  for (const int32_t size : {1, 2, 3, 4, 5, 31, 32, 33}) {
    const std::vector<Token> prompt = random_tokens(random, size);
    ask(engine, prompt);
    const Usage usage = ask(engine, prompt);
    EXPECT_EQ(usage.cached_tokens, size - 1);
    EXPECT_EQ(usage.miss, PrefixMiss::none);
  }
}

TEST(Sharing, AConversationGoesOnWhereItsAnswerEnded) {
  ManualEngine engine({});
  std::mt19937 random(3);
  const std::vector<Token> prompt = random_tokens(random, 21);
  ask(engine, prompt, 12);
  const std::vector<Token> next = joined(joined(prompt, expected_output(prompt, 12)), random_tokens(random, 9));
  EXPECT_EQ(ask(engine, next).cached_tokens, 21 + 11) << "all but the last token of the answer, which nobody computed";
}

TEST(Sharing, WhileTheOwnerRunsAndWritesOn) {
  ManualEngine engine({});
  std::mt19937 random(4);
  const std::vector<Token> prompt = random_tokens(random, 18);
  const auto owner = engine.submit(greedy(prompt, 60));
  for (int i = 0; i < 3; ++i) engine.step();
  const std::vector<Token> other = joined(prompt, {5, 6, 7, 8, 9});
  const auto sink = engine.submit(greedy(other, 30));
  engine.run();
  EXPECT_EQ(sink->wait().usage.cached_tokens, 18);
  EXPECT_EQ(sink->output(), expected_output(other, 30));
  EXPECT_EQ(owner->output(), expected_output(prompt, 60));
}

TEST(Sharing, AnswersToOnePromptAskedAtOnceComputeItOnce) {
  ManualEngine engine({.pages = 256});
  std::mt19937 random(5);
  const std::vector<Token> prompt = random_tokens(random, 90);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 4; ++i) sinks.push_back(engine.submit(greedy(prompt, 10)));
  int32_t rows = 0;
  while (const Step* step = engine.step()) rows += step->rows();
  EXPECT_EQ(rows, 90 + 3 + 4 * 9) << "one prompt, one row of it for each of the others, then decoding";
  for (const auto& sink : sinks) EXPECT_EQ(sink->output(), expected_output(prompt, 10));
}

TEST(Sharing, TenantsAreApart) {
  ManualEngine engine({});
  std::mt19937 random(6);
  const std::vector<Token> prompt = random_tokens(random, 30);
  Request mine = greedy(prompt, 3), theirs = greedy(prompt, 3);
  mine.tenant = 1;
  theirs.tenant = 2;
  engine.submit(mine);
  engine.run();
  const auto other = engine.submit(theirs);
  engine.run();
  EXPECT_EQ(other->wait().usage.cached_tokens, 0);
  EXPECT_EQ(other->wait().usage.miss, PrefixMiss::differs) << "as if it had never been seen";
  const auto again = engine.submit(mine);
  engine.run();
  EXPECT_EQ(again->wait().usage.cached_tokens, 29);
}

// A bug that leads one tenant's rows to a page of the other's is planted: these tests would see it.
TEST(Sharing, APageOfAnotherTenantWouldBeSeen) {
  ManualEngine engine({});
  std::mt19937 random(9);
  std::vector<std::vector<Token>> prompts;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int32_t tenant = 0; tenant < 2; ++tenant) {
    prompts.push_back(random_tokens(random, 30));
    Request request = greedy(prompts.back(), 20);
    request.tenant = tenant;
    sinks.push_back(engine.submit(request));
  }
  engine.step();
  std::vector<Page> pages;
  PageTable table;
  engine.tamper = [&](Batch& batch) {
    if (batch.sequences() < 2) return;
    const PageTable& right = batch.groups[0];
    pages.assign(right.pages.begin(), right.pages.end());
    pages[static_cast<size_t>(right.starts[1])] = pages[static_cast<size_t>(right.starts[0])];
    table = {right.starts, pages};
    batch.groups = {&table, 1};
  };
  engine.run();
  EXPECT_EQ(sinks[0]->output(), expected_output(prompts[0], 20));
  EXPECT_NE(sinks[1]->output(), expected_output(prompts[1], 20));
}

TEST(Sharing, AMissThatWasAnEvictionSaysSo) {
  ManualEngine engine({.pages = 32});
  std::mt19937 random(7);
  const std::vector<Token> prompt = random_tokens(random, 60);
  ask(engine, prompt);
  ask(engine, random_tokens(random, 100));  // needs 26 of the 32 pages
  const Usage usage = ask(engine, prompt);
  EXPECT_LT(usage.cached_tokens, 59);
  EXPECT_EQ(usage.miss, PrefixMiss::evicted);
  EXPECT_GT(engine.scheduler.stats().pages_evicted, 0u);
  Request scored = greedy(prompt, 1);
  scored.prompt_logprobs = true;
  const auto sink = engine.submit(scored);
  engine.run();
  EXPECT_EQ(sink->wait().usage.miss, PrefixMiss::scored);
  const auto lookups = engine.scheduler.stats().prefix_lookups;
  EXPECT_EQ(lookups[static_cast<size_t>(PrefixMiss::evicted)], 1u);
  EXPECT_EQ(lookups[static_cast<size_t>(PrefixMiss::scored)], 1u);
  EXPECT_EQ(lookups[static_cast<size_t>(PrefixMiss::differs)], 2u);
}

// The page to copy from is one of those that the sequence itself needs: it must not wait for ever.
TEST(Sharing, ASequenceThatNeedsTheWholePoolIsAdmitted) {
  ManualEngine engine({.page_tokens = 4, .pages = 8, .context = 32});
  std::mt19937 random(8);
  const std::vector<Token> first = random_tokens(random, 30);
  ask(engine, first, 1);
  std::vector<Token> second(first.begin(), first.begin() + 2);
  second = joined(second, random_tokens(random, 28));
  ask(engine, second, 2);
}

}  // namespace
}  // namespace martlet
