#include "backend/cpu/thread_pool.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <limits>

#include "backend/cpu/pause.h"

namespace martlet::cpu {
namespace {

constexpr std::chrono::microseconds kSpin{150};
// Between runs the caller is at work when it comes back sooner than this, else it had nothing to run.
constexpr std::chrono::milliseconds kIdle{1};
// How long a worker that was in the way rests: doubled each time that it is in the way again within kTrial of its
// return, which costs some ten milliseconds. Then the scout looks for a core, and again kLook after it has found none.
constexpr std::chrono::milliseconds kLeastRest{20}, kMostRest{640}, kTrial{50}, kLook{50};
// A neighbour of low rank gives way to a worker but not to the scout, so after so long it is tried out all the same.
constexpr std::chrono::seconds kBlindTrial{5};

// Spins until `done` or for kSpin; says whether it was done.
template <class Condition>
bool spin(Condition done) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      pause_core();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

uint64_t pack(int64_t begin, int64_t end) {
  return static_cast<uint64_t>(begin) | static_cast<uint64_t>(end) << 32;
}
int64_t begin_of(uint64_t bounds) {
  return static_cast<int64_t>(bounds & 0xffffffff);
}
int64_t end_of(uint64_t bounds) {
  return static_cast<int64_t>(bounds >> 32);
}

}  // namespace

ThreadPool::ThreadPool(int threads)
    : threads_(threads), ranges_(new Range[static_cast<size_t>(threads)]), team_(threads) {
  assert(threads >= 1);
  try {
    if (threads > 1) scout_ = std::make_unique<CoreScout>();
    for (int worker = 1; worker < threads; ++worker) others_.emplace_back([this, worker] { serve(worker); });
  } catch (...) {  // the system has no more threads for us: those that there are must end before anybody hears of it
    end();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  end();
}

void ThreadPool::end() {
  stop_.store(true);
  team_.store(threads_);
  team_.notify_all();
  generation_.fetch_add(1);
  generation_.notify_all();
  for (std::thread& thread : others_) thread.join();
}

void ThreadPool::run(int64_t chunks, Work work) {
  assert(chunks >= 0 && chunks <= std::numeric_limits<int32_t>::max());
  [[maybe_unused]] const bool nested = running_.exchange(true, std::memory_order_relaxed);
  assert(!nested && "run() inside run()");
  if (threads_ > 1) size_team();
  if (team() == 1 || chunks <= 1) {
    if (chunks > 0) work(0, 0, chunks);
  } else {
    run_together(chunks, work);
  }
  if (threads_ > 1) last_end_ = Clock::now();
  running_.store(false, std::memory_order_relaxed);
}

void ThreadPool::run_together(int64_t chunks, const Work& work) {
  const int team = this->team();
  for (int64_t w = 0; w < team; ++w)
    ranges_[w].bounds.store(pack(chunks * w / team, chunks * (w + 1) / team), std::memory_order_relaxed);
  work_ = &work;
  gate_.fetch_or(kOpen, std::memory_order_release);
  generation_.fetch_add(1);
  generation_.notify_all();
  take_part(0);
  // Every range is empty: what is not done is in the hands of workers inside, and nobody else may enter.
  gate_.fetch_and(~kOpen, std::memory_order_acq_rel);
  await_all_left();
}

void ThreadPool::size_team() {
  const Clock::time_point now = Clock::now();
  if (now - last_end_ > kIdle) {
    watch_ = CoreWatch();
    at_work_since_ = now;
  }
  const bool crowded = crowded_.exchange(false, std::memory_order_relaxed) | watch_.crowded(now);
  const int team = this->team();
  if (crowded && team > 1) {
    rest_ = now < trial_end_ ? std::min<Clock::duration>(2 * rest_, kMostRest) : kLeastRest;
    grow_at_ = now + rest_;
    shrunk_at_ = at_work_since_ = now;
    team_.store(team - 1, std::memory_order_relaxed);
  } else if (team < threads_ && now >= grow_at_ && is_room(now)) {
    trial_end_ = now + kTrial;
    grow_at_ = now + std::max<Clock::duration>(rest_, kTrial);
    team_.store(team + 1);
    team_.notify_all();
  }
}

// As the scout says, who is away for some calls. What it saw while this thread was not at work, or before the team
// became smaller, says nothing.
bool ThreadPool::is_room(Clock::time_point now) {
  switch (scout_->report()) {
    case CoreScout::State::found_room:
      if (looked_at_ >= at_work_since_ && now - looked_at_ < kLook) return true;
      break;
    case CoreScout::State::found_none:
      grow_at_ = now + kLook;
      break;
    case CoreScout::State::at_home:
      scout_->look();
      looked_at_ = now;
      break;
    case CoreScout::State::looking:
      break;
  }
  return now - shrunk_at_ >= kBlindTrial;
}

void ThreadPool::await_all_left() {
  uint32_t gate = 0;
  if (spin([&] { return (gate = gate_.load(std::memory_order_acquire)) == 0; })) return;
  const Clock::time_point begin = Clock::now();
  while ((gate = gate_.load(std::memory_order_acquire)) != 0) gate_.wait(gate, std::memory_order_acquire);
  watch_.idle(Clock::now() - begin);
}

// Only while the gate is open: whoever came later and lost its core on the threshold would be waited for.
bool ThreadPool::enter() {
  uint32_t gate = gate_.load(std::memory_order_acquire);
  while (gate & kOpen) {
    if (gate_.compare_exchange_weak(gate, gate + kWorker, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void ThreadPool::leave() {
  if (gate_.fetch_sub(kWorker, std::memory_order_acq_rel) == kWorker) gate_.notify_one();
}

void ThreadPool::serve(int worker) {
  CoreWatch watch;
  for (uint32_t seen = 0;;) {
    rest(worker, watch);
    seen = await_run(seen, watch);
    if (stop_.load()) return;
    if (worker < team() && enter()) {
      take_part(worker);
      leave();
    }
    if (watch.crowded()) crowded_.store(true, std::memory_order_relaxed);
  }
}

// The next run's number.
uint32_t ThreadPool::await_run(uint32_t seen, CoreWatch& watch) {
  uint32_t generation = seen;
  if (spin([&] { return (generation = generation_.load(std::memory_order_acquire)) != seen; })) return generation;
  const Clock::time_point begin = Clock::now();
  generation_.wait(seen, std::memory_order_acquire);
  watch.idle(Clock::now() - begin);
  return generation_.load(std::memory_order_acquire);
}

void ThreadPool::rest(int worker, CoreWatch& watch) {
  int team = this->team();
  if (worker < team) return;
  const Clock::time_point begin = Clock::now();
  for (; worker >= team; team = this->team()) team_.wait(team);
  watch.idle(Clock::now() - begin);
}

void ThreadPool::take_part(int worker) {
  std::atomic<uint64_t>& own = ranges_[worker].bounds;
  do {
    uint64_t bounds = own.load(std::memory_order_acquire);
    while (begin_of(bounds) < end_of(bounds)) {
      const int64_t begin = begin_of(bounds), end = end_of(bounds);
      const int64_t middle = begin + std::max<int64_t>(1, (end - begin) / 8);
      if (!own.compare_exchange_weak(bounds, pack(middle, end), std::memory_order_acq_rel)) continue;
      (*work_)(worker, begin, middle);
      bounds = own.load(std::memory_order_acquire);
    }
  } while (steal(worker));
}

// Moves the back half of another worker's range into this worker's empty one.
bool ThreadPool::steal(int worker) {
  for (int i = 1; i < threads_; ++i) {
    std::atomic<uint64_t>& victim = ranges_[(worker + i) % threads_].bounds;
    uint64_t bounds = victim.load(std::memory_order_acquire);
    while (begin_of(bounds) < end_of(bounds)) {
      const int64_t begin = begin_of(bounds), end = end_of(bounds), middle = begin + (end - begin) / 2;
      if (!victim.compare_exchange_weak(bounds, pack(begin, middle), std::memory_order_acq_rel)) continue;
      ranges_[worker].bounds.store(pack(middle, end), std::memory_order_release);
      return true;
    }
  }
  return false;
}

}  // namespace martlet::cpu
