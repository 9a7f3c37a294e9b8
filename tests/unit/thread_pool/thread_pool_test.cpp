#include "backend/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

namespace martlet::cpu {
namespace {

TEST(ThreadPool, EveryChunkOnce) {
  for (int threads = 1; threads <= 6; ++threads) {
    ThreadPool pool(threads);
    for (int64_t chunks : {0, 1, 2, 3, 7, 64, 1000}) {
      std::vector<int> counts(static_cast<size_t>(chunks));
      pool.run(chunks, [&](int worker, int64_t begin, int64_t end) {
        EXPECT_LT(worker, threads);
        for (int64_t c = begin; c < end; ++c) ++counts[static_cast<size_t>(c)];
      });
      for (int count : counts) EXPECT_EQ(count, 1);
    }
  }
}

// Plain memory written inside one run is read by others in the next: what a sanitizer for threads looks at.
TEST(ThreadPool, ManyShortRuns) {
  ThreadPool pool(4);
  std::vector<int64_t> values(97, 0);
  for (int run = 0; run < 3000; ++run) {
    const auto chunks = static_cast<int64_t>(1 + run % 97);
    pool.run(chunks, [&](int, int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) values[static_cast<size_t>((c + run) % 97)] += 1;
    });
  }
  int64_t expected = 0;
  for (int run = 0; run < 3000; ++run) expected += 1 + run % 97;
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), int64_t{0}), expected);
}

// A worker that is stuck in its first chunk loses the rest of its range to the others.
TEST(ThreadPool, IdleWorkersSteal) {
  ThreadPool pool(3);
  constexpr int64_t kChunks = 90;
  std::atomic<int64_t> done{0};
  std::vector<int> by(kChunks, -1);
  pool.run(kChunks, [&](int worker, int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) by[static_cast<size_t>(c)] = worker;
    done += end - begin;
    if (begin != 0) return;
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (done.load() < kChunks && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  });
  EXPECT_EQ(done.load(), kChunks);
  int stolen = 0;
  for (int64_t c = 0; c < kChunks / 3; ++c) stolen += by[static_cast<size_t>(c)] != by[0];
  EXPECT_GT(stolen, 20);
}

TEST(ThreadPool, WakesFromSleep) {
  ThreadPool pool(2);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> calls{0};
    pool.run(2, [&](int, int64_t begin, int64_t end) { calls += static_cast<int>(end - begin); });
    EXPECT_EQ(calls.load(), 2);
  }
}

// Beside more neighbours than cores threads lose theirs: the team shrinks to the caller, and is tried again afterwards.
TEST(ThreadPool, MakesRoomForNeighbours) {
  using Clock = std::chrono::steady_clock;
  ThreadPool pool(2);
  const auto busy = [](std::chrono::microseconds time) {
    for (const auto end = Clock::now() + time; Clock::now() < end;) continue;
  };
  const auto runs_until = [&](auto condition) {
    const auto give_up = Clock::now() + std::chrono::seconds(20);
    while (!condition() && Clock::now() < give_up)
      pool.run(4, [&](int, int64_t begin, int64_t end) { busy(std::chrono::microseconds(50 * (end - begin))); });
    return condition();
  };
  std::atomic<bool> stop{false};
  std::vector<std::thread> neighbours(3 * std::thread::hardware_concurrency());
  for (std::thread& thread : neighbours)
    thread = std::thread([&] {
      while (!stop.load()) continue;
    });
  EXPECT_TRUE(runs_until([&] { return pool.team() == 1; }));
  stop.store(true);
  for (std::thread& thread : neighbours) thread.join();
  EXPECT_TRUE(runs_until([&] { return pool.team() == 2; }));
}

TEST(CoreScout, SaysWhatItFoundOnce) {
  CoreScout scout;
  EXPECT_EQ(scout.report(), CoreScout::State::at_home);
  scout.look();
  CoreScout::State found = scout.report();
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (; found == CoreScout::State::looking && std::chrono::steady_clock::now() < give_up; found = scout.report())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(found == CoreScout::State::found_room || found == CoreScout::State::found_none);
  EXPECT_EQ(scout.report(), CoreScout::State::at_home);
}

// It may be sent home before, in, and just at the end of a look.
TEST(CoreScout, EndsWheneverItIsDismissed) {
  for (int i = 0; i < 60; ++i) {
    CoreScout scout;
    scout.look();
    std::this_thread::sleep_for(std::chrono::microseconds(200 * i));
  }
}

TEST(ThreadPoolDeath, RunInsideRun) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ThreadPool pool(1);
        pool.run(2, [&](int, int64_t, int64_t) { pool.run(1, [](int, int64_t, int64_t) {}); });
      },
      "run\\(\\) inside run");
}

}  // namespace
}  // namespace martlet::cpu
