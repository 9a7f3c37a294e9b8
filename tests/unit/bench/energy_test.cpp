#include "bench/energy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace martlet::bench {
namespace {

namespace fs = std::filesystem;

class Energy : public testing::Test {
 protected:
  // Tests may run at once, each in a process of its own.
  Energy() : root_(fs::path(testing::TempDir()) / ("martlet_powercap_" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~Energy() override { fs::remove_all(root_); }

  void counter(const std::string& folder, const std::string& name, const std::string& energy) {
    fs::create_directories(root_ / folder);
    std::ofstream(root_ / folder / "name") << name << "\n";
    std::ofstream(root_ / folder / "energy_uj") << energy << "\n";
    std::ofstream(root_ / folder / "max_energy_range_uj") << "262143328850\n";
  }

  fs::path root_;
};

TEST_F(Energy, IsTheSumOfThePackages) {
  counter("intel-rapl:0", "package-0", "1000000");
  counter("intel-rapl:1", "package-1", "262143328000");
  counter("intel-rapl:2", "psys", "5000000");
  counter("intel-rapl:0:0", "core", "100000");
  counter("intel-rapl-mmio:0", "package-0", "1000000");
  const EnergyMeter meter(root_);
  EXPECT_DOUBLE_EQ(meter.joules().value(), 0);
  counter("intel-rapl:0", "package-0", "3500000");
  counter("intel-rapl:1", "package-1", "999150");  // wrapped: 850 to the end, then these
  for (const char* other : {"intel-rapl:2", "intel-rapl:0:0", "intel-rapl-mmio:0"}) counter(other, "x", "9000000");
  EXPECT_NEAR(meter.joules().value(), 2.5 + 1, 1e-9);
}

TEST_F(Energy, IsNotKnownWhereNobodyTells) {
  EXPECT_FALSE(EnergyMeter(root_).joules());
  EXPECT_FALSE(EnergyMeter(root_ / "missing").joules());
  counter("intel-rapl:0", "package-0", "");  // as a file that this user must not read
  EXPECT_FALSE(EnergyMeter(root_).joules());
  counter("intel-rapl:0", "package-0", "7");
  const EnergyMeter meter(root_);
  fs::remove_all(root_ / "intel-rapl:0");
  EXPECT_FALSE(meter.joules());
}

}  // namespace
}  // namespace martlet::bench
