#include "bench/energy.h"

#include "base/control_group.h"

namespace martlet::bench {
namespace {

namespace fs = std::filesystem;

// Of a package, and not of its parts, nor of the whole platform ("psys"), in which the packages are. Some machines tell
// of each package twice, the second time as intel-rapl-mmio.
bool is_package(const fs::path& folder) {
  return folder.filename().string().starts_with("intel-rapl:") &&
         read_kernel_file(folder / "name").starts_with("package");
}

}  // namespace

EnergyMeter::EnergyMeter(const fs::path& root) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(root, code)) {
    const auto energy = is_package(entry.path()) ? read_kernel_number(entry.path() / "energy_uj") : std::nullopt;
    if (energy) packages_.push_back({entry.path(), static_cast<double>(*energy)});
  }
}

std::optional<double> EnergyMeter::joules() const {
  if (packages_.empty()) return std::nullopt;
  double sum = 0;
  for (const Package& package : packages_) {
    const auto end = read_kernel_number(package.folder / "energy_uj");
    if (!end) return std::nullopt;
    double difference = static_cast<double>(*end) - package.begin_uj;
    if (difference < 0)
      difference += static_cast<double>(read_kernel_number(package.folder / "max_energy_range_uj").value_or(0));
    if (difference < 0) return std::nullopt;
    sum += difference * 1e-6;
  }
  return sum;
}

}  // namespace martlet::bench
