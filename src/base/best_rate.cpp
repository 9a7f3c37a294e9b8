#include "base/best_rate.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

namespace martlet {
namespace {

constexpr int kPasses = 10;

}  // namespace

double best_rate(int32_t threads, FunctionRef<double(int32_t thread)> work) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> done(static_cast<size_t>(threads));
  Clock::time_point begin;
  double best = 0;
  int pass = 0;  // 0 warms up
  std::barrier barrier(threads, [&]() noexcept {
    const Clock::time_point now = Clock::now();
    double sum = 0;
    for (const double part : done) sum += part;
    if (pass > 0) best = std::max(best, sum / std::chrono::duration<double>(now - begin).count());
    ++pass;
    begin = Clock::now();
  });
  const auto passes = [&](int32_t thread) {
    for (int i = 0; i <= kPasses; ++i) {
      done[static_cast<size_t>(thread)] = work(thread);
      barrier.arrive_and_wait();
    }
  };
  std::vector<std::thread> others;
  for (int32_t i = 1; i < threads; ++i) others.emplace_back(passes, i);
  passes(0);
  for (std::thread& other : others) other.join();
  return best;
}

}  // namespace martlet
