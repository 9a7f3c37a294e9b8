#pragma once

// The machine that is measured on: what it is, and what else happened on it meanwhile.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/energy.h"
#include "bench/result.h"

namespace martlet::bench {

// Everything but bandwidth and peak, which take a measurement.
Machine describe_machine();

// Watches one span of time, from its making.
class Watch {
 public:
  // `roots`: processes whose trees are what is measured; this process counts as such too.
  explicit Watch(std::vector<int> roots);

  // Looks at the memory of the trees, rarely enough to cost less than a quarter percent of a core.
  void look();
  // Ends the span.
  void end();

  double peak_memory_mib() const { return static_cast<double>(peak_) / (1 << 20); }  // 0: not known
  std::optional<double> energy_j() const { return energy_; }                         // of the processor's packages
  double harness_cores() const { return harness_cores_; }                            // that this process used
  // What makes the span doubtful: other programs, a throttled processor, a host that took time away.
  const std::vector<std::string>& noise() const { return noise_; }

 private:
  struct Counters;
  static Counters read(const std::vector<int>& roots);

  struct Counters {
    double time = 0;           // seconds of a steady clock
    double busy = 0;           // processor seconds of everybody; -1: not told
    double stolen = 0;         // that the host gave to others
    double own = 0, self = 0;  // of the trees; of this process
    double throttled = 0;      // times that cores were slowed down for heat or power
  };

  std::vector<int> roots_;
  EnergyMeter meter_;
  Counters begin_;
  double next_look_ = 0;
  int64_t peak_ = 0;
  double harness_cores_ = 0;
  std::optional<double> energy_;
  std::vector<std::string> noise_;
};

}  // namespace martlet::bench
