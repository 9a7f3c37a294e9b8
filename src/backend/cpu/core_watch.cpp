#include "backend/cpu/core_watch.h"

#include <ctime>

namespace martlet::cpu {
namespace {

std::chrono::nanoseconds processor_time() {
  timespec t = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

}  // namespace

void CoreWatch::restart(Clock::time_point now) {
  began_ = now;
  used_ = processor_time();
}

bool CoreWatch::crowded(Clock::time_point now) {
  const auto wanted = now - began_;
  if (wanted < kWindow) return false;
  const auto before = used_;
  restart(now);
  return wanted - (used_ - before) > wanted / 4;
}

}  // namespace martlet::cpu
