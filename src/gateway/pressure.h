#pragma once

// How hard memory is pressed, made calm: thresholds with hysteresis over a noisy reading.

#include "gateway/time.h"
#include "net/memory_pressure.h"

namespace martlet::gateway {

enum class Pressure { normal, warning, critical };

struct PressureOptions {
  double warning = 0.80, critical = 0.92;             // shares of memory in use at which a level begins
  double margin = 0.08;                               // a level ends this far below its beginning ...
  Duration calm = std::chrono::seconds(30);           // ... and only when it stayed there for so long
  Duration confirm = std::chrono::milliseconds(400);  // a rise must last this long: one spike is no trend
};

// A reading that is at least as high as the system's own word for it: its stalls, its events, its kernel's level.
double reading_of(double used, net::MemoryPressure said, const PressureOptions& options);

class PressureRule {
 public:
  explicit PressureRule(PressureOptions options = {}) : options_(options) {}

  // `used`: share of memory in use, from 0 to 1. Returns the level that holds from now on.
  Pressure update(double used, Time now);
  Pressure level() const { return level_; }

 private:
  Pressure level_of(double used) const;

  PressureOptions options_;
  Pressure level_ = Pressure::normal;
  Pressure wanted_ = Pressure::normal;  // the least level of the readings since `since_` that all differ from level_
  Time since_{};
};

}  // namespace martlet::gateway
