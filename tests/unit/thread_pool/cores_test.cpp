#include "backend/cpu/cores.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace martlet::cpu {
namespace {

// A made-up machine under a folder of its own.
class CoresTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text << "\n";
  }
  void processor(int cpu, const std::string& siblings) {
    write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list", siblings);
  }

  const std::string root_ =
      testing::TempDir() + "martlet_cores_" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(CoresTest, HyperThreadsCountOnce) {
  for (int cpu = 0; cpu < 8; ++cpu) processor(cpu, std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4));
  EXPECT_EQ(usable_cores({0, 1, 2, 3, 4, 5, 6, 7}, root_), 4);
  EXPECT_EQ(usable_cores({1, 5}, root_), 1);
  EXPECT_EQ(usable_cores({1, 6}, root_), 2);
}

TEST_F(CoresTest, EfficiencyCoresStayOut) {
  for (int cpu = 0; cpu < 6; ++cpu) processor(cpu, std::to_string(cpu));
  write("/sys/devices/cpu_atom/cpus", "2-4,5");
  EXPECT_EQ(usable_cores({0, 1, 2, 3, 4, 5}, root_), 2);
  EXPECT_EQ(usable_cores({2, 3, 4}, root_), 3);  // nothing faster is allowed
}

TEST_F(CoresTest, ArmCapacities) {
  for (int cpu = 0; cpu < 4; ++cpu) {
    processor(cpu, std::to_string(cpu));
    write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpu_capacity", cpu < 2 ? "1024" : "380");
  }
  EXPECT_EQ(usable_cores({0, 1, 2, 3}, root_), 2);
}

TEST_F(CoresTest, QuotaOfVersion2) {
  for (int cpu = 0; cpu < 8; ++cpu) processor(cpu, std::to_string(cpu));
  const std::vector<int> all = {0, 1, 2, 3, 4, 5, 6, 7};
  write("/proc/self/cgroup", "0::/outer/inner");
  write("/sys/fs/cgroup/outer/inner/cpu.max", "max 100000");
  EXPECT_EQ(usable_cores(all, root_), 8);
  write("/sys/fs/cgroup/outer/cpu.max", "350000 100000");
  EXPECT_EQ(usable_cores(all, root_), 3);
  write("/sys/fs/cgroup/outer/inner/cpu.max", "50000 100000");
  EXPECT_EQ(usable_cores(all, root_), 1);
}

TEST_F(CoresTest, QuotaOfVersion1) {
  for (int cpu = 0; cpu < 8; ++cpu) processor(cpu, std::to_string(cpu));
  write("/proc/self/cgroup", "5:cpu,cpuacct:/box\n1:name=systemd:/");
  write("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "200000");
  write("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000");
  EXPECT_EQ(usable_cores({0, 1, 2, 3, 4, 5, 6, 7}, root_), 2);
  write("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(usable_cores({0, 1, 2, 3, 4, 5, 6, 7}, root_), 8);
}

TEST_F(CoresTest, ThisMachineHasAtLeastOne) {
  EXPECT_GE(usable_cores(), 1);
}

}  // namespace
}  // namespace martlet::cpu
