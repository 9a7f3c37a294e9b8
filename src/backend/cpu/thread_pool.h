#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/function_ref.h"

namespace martlet::cpu {

// One team of threads for all operators. The thread that calls run() is worker 0; the others wait for it, spinning for
// a short while (waking a sleeper costs 30 to 70 us) and then asleep.
//
// run() cuts its chunks into one contiguous range a worker. A worker takes from the front of its own range, an eighth
// of what is left at a time, and when it is empty steals the back half of another's. run() returns when every chunk is
// done, and waits for no worker that has not come: one that the system keeps off its core costs nothing but its help.
class ThreadPool {
 public:
  using Work = FunctionRef<void(int worker, int64_t begin, int64_t end)>;

  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls `work` on ranges that together cover [0, chunks) once, at most one call at a time on each worker. Everything
  // the calls wrote is visible after it. Not from inside `work`, and not from two threads at once.
  void run(int64_t chunks, Work work);

 private:
  // begin in the low half, end in the high half: taken from both ends with one compare-exchange.
  struct alignas(64) Range {
    std::atomic<uint64_t> bounds{0};
  };
  // The lowest bit says that a run takes workers in; the rest counts, in twos, the workers that are inside.
  static constexpr uint32_t kOpen = 1, kWorker = 2;

  void serve(int worker);
  void take_part(int worker);
  bool steal(int worker);
  void leave();
  void await_all_left();

  const int threads_;
  std::unique_ptr<Range[]> ranges_;
  const Work* work_ = nullptr;
  alignas(64) std::atomic<uint32_t> generation_{0};  // counts the runs: what idle workers look at
  alignas(64) std::atomic<uint32_t> gate_{0};
  alignas(64) std::atomic<bool> running_{false}, stop_{false};
  std::vector<std::thread> others_;
};

}  // namespace martlet::cpu
