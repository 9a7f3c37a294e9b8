#include "gateway/pressure.h"

#include <algorithm>

namespace martlet::gateway {

double reading_of(double used, net::MemoryPressure said, const PressureOptions& options) {
  const double floors[] = {0, options.warning, options.critical};
  return std::max(used, floors[static_cast<size_t>(said)]);
}

// The level that this reading speaks for: the present one as long as it is above that one's end.
Pressure PressureRule::level_of(double used) const {
  if (used >= options_.critical) return Pressure::critical;
  const bool still_critical = level_ == Pressure::critical && used >= options_.critical - options_.margin;
  if (still_critical) return Pressure::critical;
  if (used >= options_.warning) return Pressure::warning;
  const bool still_raised = level_ != Pressure::normal && used >= options_.warning - options_.margin;
  return still_raised ? Pressure::warning : Pressure::normal;
}

Pressure PressureRule::update(double used, Time now) {
  const Pressure reading = level_of(used);
  if (reading == level_) return wanted_ = level_;
  const bool rises = reading > level_, same_way = wanted_ != level_ && (wanted_ > level_) == rises;
  if (!same_way) {
    wanted_ = reading;
    since_ = now;
  }
  // The most cautious of what was read in between: a fall goes no deeper than its highest reading.
  wanted_ = rises ? std::min(wanted_, reading) : std::max(wanted_, reading);
  if (now - since_ >= (rises ? options_.confirm : options_.calm)) level_ = wanted_;
  return level_;
}

}  // namespace martlet::gateway
