#pragma once

// What the processor's packages take, where Linux lets this user read it.

#include <filesystem>
#include <optional>
#include <vector>

namespace martlet::bench {

// Counts from its making.
class EnergyMeter {
 public:
  // `root`: Linux's powercap, one folder a counter; energy_uj rises until it wraps at max_energy_range_uj.
  explicit EnergyMeter(const std::filesystem::path& root = "/sys/class/powercap");
  // Joules of all packages since then; nothing where the machine does not tell. A counter that wrapped more than once
  // is not noticed: that takes half an hour and more.
  std::optional<double> joules() const;

 private:
  struct Package {
    std::filesystem::path folder;
    double begin_uj = 0;
  };
  std::vector<Package> packages_;
};

}  // namespace martlet::bench
