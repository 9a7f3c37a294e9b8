#include "backend/cpu/peak.h"

#include "base/best_rate.h"

namespace martlet::cpu {
namespace {

constexpr int64_t kSteps = 1 << 20;  // some milliseconds: a late start of one thread hardly counts

}  // namespace

double measure_peak(const Level& level, int threads) {
  return best_rate(threads, [&](int32_t) { return static_cast<double>(level.linear->run_peak(kSteps)) / 1e9; });
}

}  // namespace martlet::cpu
