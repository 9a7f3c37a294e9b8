#include "bench/machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "bench/process_tree.h"
#include "net/child_process.h"

namespace martlet::bench {
namespace {

constexpr auto kSecond = std::chrono::milliseconds(1100);

std::unique_ptr<net::ChildProcess> shell(const std::string& script) {
  auto child = net::ChildProcess::start({"sh", "-c", script}, "/dev/null");
  EXPECT_TRUE(child);
  return std::move(*child);
}

TEST(ProcessTree, HoldsWhatAProcessStarted) {
  const auto child = shell("sleep 30 & sleep 30 & wait");
  for (int i = 0; i < 200 && process_tree(child->pid()).size() < 3; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(process_tree(child->pid()).size(), 3u);
  const auto one = memory_of({::getpid()}), both = memory_of({::getpid(), child->pid()});
  ASSERT_TRUE(one && both);
  EXPECT_GT(*one, 1 << 20);
  EXPECT_GT(*both, *one);
  EXPECT_FALSE(memory_of({1 << 30})) << "no such process";
}

TEST(Watch, OtherProgramsMakeNoiseAndOursDoNot) {
  const auto busy = shell("while :; do :; done");
  const auto idle = shell("sleep 10");
  Watch ours({busy->pid()}), other({idle->pid()});
  const double before = cpu_seconds_of({busy->pid()});
  std::this_thread::sleep_for(kSecond);
  EXPECT_GT(cpu_seconds_of({busy->pid()}) - before, 0.1);
  other.end();
  ours.end();
  ASSERT_FALSE(other.noise().empty());
  EXPECT_NE(other.noise().front().find("other programs"), std::string::npos);
  EXPECT_GT(ours.peak_memory_mib(), 0);
}

TEST(Machine, IsDescribed) {
  const Machine m = describe_machine();
  EXPECT_FALSE(m.processor.empty());
  EXPECT_FALSE(m.system.empty());
  EXPECT_GE(m.cores, 1);
  EXPECT_GT(m.memory_gib, 0.1);
}

}  // namespace
}  // namespace martlet::bench
