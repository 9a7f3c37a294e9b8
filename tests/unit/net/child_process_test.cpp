#include "net/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace martlet::net {
namespace {

namespace fs = std::filesystem;

class Child : public testing::Test {
 protected:
  std::unique_ptr<ChildProcess> start(const std::string& script) {
    auto child = ChildProcess::start({"sh", "-c", script}, log_);
    EXPECT_TRUE(child);
    return std::move(*child);
  }
  static int wait(ChildProcess& child) {
    for (int i = 0; i < 1000; ++i) {
      if (const auto status = child.ended()) return *status;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return -1;
  }
  std::string log() const {
    std::ostringstream out;
    out << std::ifstream(log_).rdbuf();
    return out.str();
  }
  void TearDown() override { fs::remove(log_); }
  const std::string log_ = fs::temp_directory_path() / ("martlet-child-" + std::to_string(::getpid()) + ".log");
};

TEST_F(Child, EndsWithItsStatusAndLeavesItsWords) {
  const auto child = start("echo out; echo err >&2; exit 3");
  EXPECT_EQ(wait(*child), 3);
  EXPECT_EQ(log(), "out\nerr\n");
}

TEST_F(Child, IsTerminatedWithItsChildren) {
  const auto child = start("sleep 60 & echo $!; wait");
  while (log().find('\n') == std::string::npos) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const pid_t grandchild = std::stoi(log());
  EXPECT_EQ(::kill(grandchild, 0), 0);
  child->terminate();
  EXPECT_EQ(wait(*child), 128 + SIGTERM);
  for (int i = 0; i < 200 && ::kill(grandchild, 0) == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  // A zombie that nobody waits for still has its number; what matters is that it does not run.
  std::ifstream stat("/proc/" + std::to_string(grandchild) + "/stat");
  std::string text;
  std::getline(stat, text);
  EXPECT_TRUE(text.empty() || text.find(") Z ") != text.npos) << text;
}

TEST_F(Child, SignalsAreThoseOfAShell) {
  sigset_t term, before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &term, &before);
  const auto child = start("exec sleep 60");
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  child->terminate();
  EXPECT_EQ(wait(*child), 128 + SIGTERM);
}

TEST_F(Child, InheritsNoDescriptor) {
  const int fd = ::dup(0);
  const auto child = start("ls /proc/self/fd | wc -l");
  EXPECT_EQ(wait(*child), 0);
  EXPECT_LE(std::stoi(log()), 4) << "0, 1, 2 and the folder itself";
  ::close(fd);
}

TEST_F(Child, AProgramThatIsNotThereIsAnError) {
  const auto child = ChildProcess::start({"/does/not/exist"}, log_);
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().code, "cannot_start");
}

TEST(FreePort, IsOne) {
  const auto port = free_port();
  ASSERT_TRUE(port);
  EXPECT_GT(*port, 1024);
}

}  // namespace
}  // namespace martlet::net
