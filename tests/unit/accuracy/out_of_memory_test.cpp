// G5: whichever allocation of a load or of a request fails, it ends with an error, and what was loaded goes on.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "base/out_of_memory.h"
#include "engine/cache_file.h"
#include "engine/harness.h"
#include "file/model_file.h"

namespace {

std::atomic<int64_t> until_failure{0};  // allocations until one fails; 0: none will
std::atomic<bool> failed{false};

bool fails() {
  if (until_failure.load(std::memory_order_relaxed) <= 0 || until_failure.fetch_sub(1) != 1) return false;
  return failed = true;
}

}  // namespace

// Not inlined: where the compiler sees one half of a pair, it takes free() for the wrong way to give memory back.
[[gnu::noinline]] void* operator new(size_t size) {
  if (!fails()) {
    if (void* memory = std::malloc(size ? size : 1)) return memory;
  }
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace martlet {
namespace {

// Told by the engine's thread; asks for no memory itself.
class QuietSink final : public RequestSink {
 public:
  void on_tokens(std::span<const Emitted> tokens) override {
    for (const Emitted& e : tokens) tokens_[count_++] = e.token;
  }
  void on_finish(const Finish& finish) override {
    error_ = finish.error ? finish.error->kind : std::optional<ErrorKind>();
    over_ = true;
    over_.notify_all();
  }
  void wait() const { over_.wait(false); }
  std::vector<Token> tokens() const { return {tokens_.begin(), tokens_.begin() + count_}; }
  std::optional<ErrorKind> error() const { return error_; }

 private:
  std::array<Token, 64> tokens_{};
  int count_ = 0;
  std::optional<ErrorKind> error_;
  std::atomic<bool> over_{false};
};

constexpr int32_t kTokens = 6;

Result<std::unique_ptr<Engine>> load() {
  MARTLET_ASSIGN(const auto file, ModelFile::open("tests/golden/models/llama.gguf"));
  MARTLET_ASSIGN(auto backend, make_cpu_backend({.threads = 1, .max_rows = 64}));
  EngineOptions options;
  options.context = 128;
  options.max_sequences = 4;
  options.prefill_chunk = 32;
  options.streams = 1;
  options.ngram = true;
  return Engine::create(file, std::move(backend), options);
}

Request request() {
  return greedy({3, 14, 15, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9}, kTokens);
}

Result<std::vector<Token>> answer(Engine& engine) {
  const auto sink = std::make_shared<QuietSink>();
  MARTLET_ASSIGN(const RequestId id, engine.submit(request(), sink));
  EXPECT_GT(id, 0u);
  sink->wait();
  if (sink->error()) return Error{*sink->error(), "", "", ""};
  return sink->tokens();
}

// How often the nth allocation of `attempt` failed, for every n; what it gives is `expected`, or an error for want of
// memory.
template <class Attempt>
int64_t fail_each(const std::vector<Token>& expected, Attempt attempt) {
  int64_t ended = 0;
  for (int64_t n = 1;; ++n) {
    std::optional<ErrorKind> error;
    std::vector<Token> tokens;
    failed = false;
    until_failure = n;
    try {
      Result<std::vector<Token>> result = attempt();
      until_failure = 0;
      if (result) tokens = std::move(*result);
      if (!result) error = result.error().kind;
    } catch (const std::bad_alloc&) {
      until_failure = 0;
      error = ErrorKind::memory;
    }
    if (error) {
      EXPECT_EQ(*error, ErrorKind::memory) << "allocation " << n;
      ++ended;
    } else {
      EXPECT_EQ(tokens, expected) << "allocation " << n;
    }
    if (!failed || testing::Test::HasFailure()) return ended;
  }
}

TEST(OutOfMemory, G5_TheNthAllocationOfALoadFails) {
  const std::vector<Token> expected = *answer(**load());
  EXPECT_EQ(expected.size(), static_cast<size_t>(kTokens));
  const int64_t ended = fail_each(expected, []() -> Result<std::vector<Token>> {
    MARTLET_ASSIGN(const auto engine, load());
    until_failure = 0;
    return answer(*engine);
  });
  EXPECT_GT(ended, 100);
}

// What a restart would bring back is left out as far as there is no memory for it; neither a page is lost nor the file.
TEST(OutOfMemory, G5_TheNthAllocationOfRestoringTheCacheFails) {
  const CacheFile file{testing::TempDir() + "a_cache_that_finds_no_memory", 7, 4, 100, 8};
  {
    PagePool pool(4);
    PrefixTree tree(pool, file.page_tokens);
    std::vector<Page> pages = {*pool.allocate(), *pool.allocate(), *pool.allocate()};
    tree.publish(0, std::vector<Token>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, pages);
    const auto read = [](Page, std::span<std::byte> bytes) { std::ranges::fill(bytes, std::byte{1}); };
    ASSERT_TRUE(save_prefixes(file, tree, 0, read));
  }
  int refused = 0, shortened = 0;
  for (int64_t n = 1;; ++n) {
    PagePool pool(4);
    PrefixTree tree(pool, file.page_tokens);
    failed = false;
    until_failure = n;
    Result<int32_t> restored = 0;
    if_memory_allows(
        [&] { restored = restore_prefixes(file, tree, 0, pool, [](Page, std::span<const std::byte>) {}); });
    until_failure = 0;
    EXPECT_EQ(tree.pages(), restored ? *restored : 0) << "allocation " << n;
    EXPECT_EQ(pool.free() + tree.pages(), pool.total()) << "allocation " << n;
    EXPECT_EQ(pool.reclaimable(), tree.pages()) << "allocation " << n;
    if (!restored) {
      EXPECT_EQ(restored.error().kind, ErrorKind::memory);
      ++refused;
    }
    if (!failed) {
      EXPECT_EQ(tree.pages(), 3) << "the file is still there";
      break;
    }
    shortened += tree.pages() > 0;
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(shortened, 0);
}

// What grows with the first request, or with the first step, is asked for while it runs.
TEST(OutOfMemory, G5_TheNthAllocationOfTheFirstRequestFails) {
  const std::vector<Token> expected = *answer(**load());
  const int64_t ended = fail_each(expected, []() -> Result<std::vector<Token>> {
    const int64_t n = until_failure.exchange(0);  // not of the load
    MARTLET_ASSIGN(const auto engine, load());
    until_failure = n;
    Result<std::vector<Token>> tokens = answer(*engine);
    until_failure = 0;
    engine->drain(10);
    EXPECT_EQ(engine->stats().pages_used, 0) << "allocation " << n;
    return tokens;
  });
  EXPECT_GT(ended, 2);
}

TEST(OutOfMemory, G5_OneOfTwoThatRunTogetherIsConcernedAtMost) {
  const auto engine = std::move(*load());
  const std::vector<Token> expected = *answer(*engine);
  for (int64_t n = 1; !HasFailure(); ++n) {
    engine->drop_prompt_cache();
    failed = false;
    until_failure = n;
    std::array<std::shared_ptr<QuietSink>, 2> sinks;
    for (auto& sink : sinks) {
      try {
        sink = std::make_shared<QuietSink>();
        if (!engine->submit(request(), sink)) sink = nullptr;
      } catch (const std::bad_alloc&) {
        sink = nullptr;
      }
    }
    for (const auto& sink : sinks) {
      if (sink) sink->wait();
    }
    until_failure = 0;
    int ended = 0;
    for (const auto& sink : sinks) {
      if (!sink || sink->error()) {
        ++ended;
      } else {
        EXPECT_EQ(sink->tokens(), expected) << "allocation " << n;
      }
    }
    EXPECT_LE(ended, 1) << "allocation " << n;
    if (!failed) return;
  }
}

TEST(OutOfMemory, G5_TheNthAllocationOfARequestFails) {
  const auto engine = std::move(*load());
  const std::vector<Token> expected = *answer(*engine);
  for (int round = 0; round < 3; ++round) {  // prompts that are computed, and such that are found
    engine->drop_prompt_cache();
    const int64_t ended = fail_each(expected, [&] { return answer(*engine); });
    EXPECT_GT(ended, 2);
    const auto idle = [&] { return engine->stats().running + engine->stats().queued == 0; };
    for (int i = 0; i < 1000 && !idle(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(engine->stats().pages_used, 0);
    EXPECT_EQ(*answer(*engine), expected);
  }
}

}  // namespace
}  // namespace martlet
