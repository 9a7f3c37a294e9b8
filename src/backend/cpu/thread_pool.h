#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "backend/cpu/core_scout.h"
#include "backend/cpu/core_watch.h"
#include "base/function_ref.h"

namespace martlet::cpu {

// One team of threads for all operators. The thread that calls run() is worker 0; the others wait for it, spinning for
// a short while (waking a sleeper costs 30 to 70 us) and then asleep.
//
// run() cuts its chunks into one contiguous range a worker. A worker takes from the front of its own range, an eighth
// of what is left at a time, and when it is empty steals the back half of another's. run() returns when every chunk is
// done, and waits for no worker that has not come: one that the system keeps off its core costs nothing but its help.
// One that loses its core in the middle of a chunk does stall the run, so where threads lose more than a quarter of
// their time to other programs the team becomes smaller by one, until a scout has found a core that is free, or for
// some seconds.
class ThreadPool {
 public:
  using Work = FunctionRef<void(int worker, int64_t begin, int64_t end)>;

  explicit ThreadPool(int threads);  // throws std::system_error when the system has no threads left
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  int team() const { return team_.load(std::memory_order_relaxed); }  // threads that take part at present

  // Calls `work` on ranges that together cover [0, chunks) once, at most one call at a time on each worker. Everything
  // the calls wrote is visible after it. Not from inside `work`, and not from two threads at once.
  void run(int64_t chunks, Work work);

 private:
  using Clock = CoreWatch::Clock;
  // begin in the low half, end in the high half: taken from both ends with one compare-exchange.
  struct alignas(64) Range {
    std::atomic<uint64_t> bounds{0};
  };
  // The lowest bit says that a run takes workers in; the rest counts, in twos, the workers that are inside.
  static constexpr uint32_t kOpen = 1, kWorker = 2;

  void end();
  void run_together(int64_t chunks, const Work& work);
  void serve(int worker);
  uint32_t await_run(uint32_t seen, CoreWatch& watch);
  void rest(int worker, CoreWatch& watch);
  bool enter();
  void take_part(int worker);
  bool steal(int worker);
  void leave();
  void await_all_left();
  void size_team();
  bool is_room(Clock::time_point now);

  const int threads_;
  std::unique_ptr<Range[]> ranges_;
  const Work* work_ = nullptr;
  alignas(64) std::atomic<uint32_t> generation_{0};  // counts the runs: what idle workers look at
  alignas(64) std::atomic<uint32_t> gate_{0};
  alignas(64) std::atomic<bool> running_{false}, stop_{false}, crowded_{false};
  std::atomic<int> team_;  // workers from here on rest
  std::vector<std::thread> others_;

  // The calling thread's.
  std::unique_ptr<CoreScout> scout_;  // none where there are no others
  CoreWatch watch_;
  Clock::time_point last_end_{}, grow_at_{}, trial_end_{};  // last_end_: of the last run
  Clock::time_point at_work_since_{}, shrunk_at_{}, looked_at_{};
  Clock::duration rest_{};
};

}  // namespace martlet::cpu
