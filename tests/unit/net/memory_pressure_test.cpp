#include "net/memory_pressure.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace martlet::net {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using enum MemoryPressure;

// A kernel made of files below a folder of its own.
class Pressure : public testing::Test {
 protected:
  void SetUp() override {
    write("proc/self/cgroup", "4:memory:/a\n0::/b\n");
    stalled(0, 0);
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  // Microseconds in which some and all tasks have waited so far.
  void stalled(int64_t some, int64_t all, const std::string& path = "proc/pressure/memory") {
    const auto line = [](const char* name, int64_t total) {
      return std::string(name) + " avg10=0.00 avg60=0.00 avg300=0.00 total=" + std::to_string(total) + "\n";
    };
    write(path, line("some", some) + line("full", all));
  }
  std::unique_ptr<PressureSource> source() { return linux_pressure(root_ / "proc", root_ / "sys"); }
  // After a moment that is long against the rounding of what tests write.
  static MemoryPressure level(PressureSource& source) {
    std::this_thread::sleep_for(milliseconds(20));
    return source.read();
  }

  const fs::path root_ = fs::temp_directory_path() / ("martlet-pressure-" + std::to_string(getpid()));
};

TEST_F(Pressure, StallsOfTheMachine) {
  stalled(5'000'000, 5'000'000);  // before we were there: nobody's business now
  const auto s = source();
  EXPECT_EQ(level(*s), none);
  stalled(6'000'000, 5'000'000);
  EXPECT_EQ(level(*s), some);
  EXPECT_EQ(level(*s), none);
  stalled(7'000'000, 6'000'000);
  EXPECT_EQ(level(*s), critical);
}

TEST_F(Pressure, EventsOfAVersion2GroupAndItsAncestors) {
  write("sys/b/memory.events", "low 0\nhigh 0\nmax 5\noom 0\noom_kill 0");
  write("sys/memory.events", "oom 3");
  const auto s = source();
  write("sys/b/memory.events", "low 0\nhigh 0\nmax 900\noom 0\noom_kill 0");
  EXPECT_EQ(level(*s), none) << "file pages were dropped and nobody waited";
  stalled(0, 0, "sys/b/memory.pressure");
  EXPECT_EQ(level(*s), none);
  stalled(1'000, 0, "sys/b/memory.pressure");
  write("sys/b/memory.events", "low 0\nhigh 7\nmax 900\noom 0\noom_kill 0");
  EXPECT_EQ(level(*s), some);
  write("sys/memory.events", "oom 4");
  EXPECT_EQ(level(*s), critical);
  EXPECT_EQ(level(*s), none);
}

TEST_F(Pressure, FailuresOfAVersion1Group) {
  write("sys/memory/a/memory.failcnt", "10");
  write("sys/memory/a/memory.limit_in_bytes", "1000");
  write("sys/memory/a/memory.stat", "rss 5\ntotal_rss 500");
  const auto s = source();
  write("sys/memory/a/memory.failcnt", "20");
  EXPECT_EQ(level(*s), none) << "half of the limit can be taken back";
  write("sys/memory/a/memory.failcnt", "30");
  write("sys/memory/a/memory.stat", "rss 5\ntotal_rss 950");
  EXPECT_EQ(level(*s), some);
  EXPECT_EQ(level(*s), none) << "no new failure";
  write("sys/memory/a/memory.failcnt", "31");
  write("sys/memory/a/memory.stat", "rss 5\ntotal_rss 990");
  EXPECT_EQ(level(*s), critical);
}

TEST_F(Pressure, NoKernelNoPressure) {
  const auto s = linux_pressure(root_ / "nowhere", root_ / "nowhere");
  EXPECT_EQ(level(*s), none);
  EXPECT_EQ(system_pressure()->read(), none);  // and the real one can be asked
}

TEST_F(Pressure, SimulatedFromAFile) {
  const auto s = make_pressure_source("file:" + (root_ / "level").string());
  ASSERT_TRUE(s);
  EXPECT_EQ((*s)->read(), none);
  write("level", "critical");
  EXPECT_EQ((*s)->read(), critical);
  write("level", "rubbish");
  EXPECT_EQ((*s)->read(), none);
  for (const char* bad : {"", "file:", "on", "systems"}) EXPECT_FALSE(make_pressure_source(bad)) << bad;
}

TEST(PressureAdvice, G8_CachesGoFirstThenWorkIsRefusedUntilItIsCalm) {
  PressureResponse response;
  auto at = std::chrono::steady_clock::time_point() + std::chrono::hours(1);
  const auto after = [&](milliseconds time, MemoryPressure level) { return response.update(level, at += time); };
  const auto is = [](const PressureResponse::Advice& advice, bool shed, bool refuse) {
    return advice.shed == shed && advice.refuse == refuse;
  };
  EXPECT_TRUE(is(after(milliseconds(0), none), false, false));
  EXPECT_TRUE(is(after(milliseconds(500), some), true, false));
  EXPECT_TRUE(is(after(milliseconds(60'000), some), true, false)) << "some pressure never refuses work";
  EXPECT_TRUE(is(after(milliseconds(500), critical), true, false)) << "caches go first";
  EXPECT_TRUE(is(after(milliseconds(500), critical), true, false));
  EXPECT_TRUE(is(after(milliseconds(500), critical), true, true));
  EXPECT_TRUE(is(after(milliseconds(500), none), false, true)) << "not calm yet";
  EXPECT_TRUE(is(after(milliseconds(4'000), some), true, true)) << "and begins anew";
  EXPECT_TRUE(is(after(milliseconds(4'500), none), false, true));
  EXPECT_TRUE(is(after(milliseconds(1'000), none), false, false));
  EXPECT_TRUE(is(after(milliseconds(500), critical), true, false)) << "patience begins anew too";
}

}  // namespace
}  // namespace martlet::net
