// The harness proves itself: what AddressSanitizer is there for is planted, and seen.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "sanitized.h"

#if MARTLET_ADDRESS_SANITIZER

#include <sanitizer/lsan_interface.h>

namespace martlet {
namespace {

int read_at(const std::vector<int>& values, size_t index) {
  return *(values.data() + index);
}

// Many: an old register or stack slot may still point to one.
__attribute__((noinline)) void leak() {
  static int* volatile lost;
  for (int i = 0; i < 100; ++i) lost = new int[100];
  lost = nullptr;
}

// Not inside a container or debugger that keeps it from stopping its own threads, nor on a Mac.
bool leaks_are_looked_for() {
  const char* options = std::getenv("ASAN_OPTIONS");
  if (options && std::strstr(options, "detect_leaks=0")) return false;
#ifdef __linux__
  const pid_t child = ::fork();
  if (child == 0) {
    __lsan_do_recoverable_leak_check();  // ends the process where it cannot look, not where it finds something
    ::_exit(0);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && status == 0;
#else
  return false;
#endif
}

TEST(AddressSanitizerDeath, SeesAReadOutOfBounds) {
  const std::vector<int> values(100, 1);
  const volatile size_t index = 100;
  EXPECT_DEATH(std::exit(read_at(values, index)), "heap-buffer-overflow");
}

TEST(AddressSanitizerDeath, SeesALeak) {
  if (!leaks_are_looked_for()) GTEST_SKIP() << "LeakSanitizer cannot run here";
  EXPECT_EXIT(
      {
        leak();
        std::exit(0);
      },
      testing::ExitedWithCode(1), "detected memory leaks");
}

}  // namespace
}  // namespace martlet

#endif
