#include "net/memory_use.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace martlet::net {
namespace {

namespace fs = std::filesystem;

class MemoryUseFiles : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(root_);
    write("proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    400 kB\n");
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  MemoryUse read() { return linux_memory_use(root_ / "proc", root_ / "cgroup")->read(); }
  const fs::path root_ = fs::temp_directory_path() / ("martlet-memory-use-" + std::to_string(::getpid()));
};

TEST_F(MemoryUseFiles, OfTheMachine) {
  EXPECT_EQ(read().total, 1000 << 10);
  EXPECT_DOUBLE_EQ(read().share(), 0.6);
}

TEST_F(MemoryUseFiles, OfTheTightestGroup) {
  write("proc/self/cgroup", "1:name=systemd:/x\n0::/a/b\n");
  write("cgroup/a/b/memory.max", "max\n");
  write("cgroup/a/memory.max", "100000\n");
  write("cgroup/a/memory.current", "95000\n");
  write("cgroup/a/memory.stat", "anon 5\ninactive_file 5000\n");
  EXPECT_EQ(read().total, 100000);
  EXPECT_DOUBLE_EQ(read().share(), 0.9);
  write("cgroup/a/memory.current", "20000\n");
  EXPECT_DOUBLE_EQ(read().share(), 0.6) << "the machine is tighter";
}

TEST_F(MemoryUseFiles, OfAGroupOfVersion1) {
  write("proc/self/cgroup", "4:memory:/a/b\n0::/\n");
  write("cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  write("cgroup/memory/a/memory.limit_in_bytes", "100000\n");
  write("cgroup/memory/a/memory.usage_in_bytes", "95000\n");
  write("cgroup/memory/a/memory.stat", "cache 7\ntotal_inactive_file 5000\n");
  EXPECT_EQ(read().total, 100000);
  EXPECT_DOUBLE_EQ(read().share(), 0.9);
}

TEST_F(MemoryUseFiles, Simulated) {
  const auto source = simulated_memory_use(root_ / "share");
  EXPECT_DOUBLE_EQ(source->read().share(), 0);
  write("share", "0.75\n");
  EXPECT_NEAR(source->read().share(), 0.75, 1e-6);
  write("share", "junk");
  EXPECT_DOUBLE_EQ(source->read().share(), 0);
}

TEST(MemoryUse, ThisMachine) {
  const MemoryUse use = system_memory_use()->read();
  EXPECT_GT(use.total, 0);
  EXPECT_GE(use.share(), 0);
  EXPECT_LE(use.share(), 1);
}

}  // namespace
}  // namespace martlet::net
