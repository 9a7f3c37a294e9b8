// The harness proves itself: what AddressSanitizer is there for is planted, and seen.

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#if defined(__has_feature)
#define MARTLET_HAS_FEATURE(name) __has_feature(name)
#else
#define MARTLET_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || MARTLET_HAS_FEATURE(address_sanitizer)

namespace martlet {
namespace {

int read_at(const std::vector<int>& values, size_t index) {
  return *(values.data() + index);
}

// A call of its own: no register of the test is left that holds the pointer.
__attribute__((noinline)) void leak() {
  static int* volatile lost = new int[100];
  lost = nullptr;
}

TEST(AddressSanitizerDeath, SeesAReadOutOfBounds) {
  const std::vector<int> values(100, 1);
  const volatile size_t index = 100;
  EXPECT_DEATH(std::exit(read_at(values, index)), "heap-buffer-overflow");
}

TEST(AddressSanitizerDeath, SeesALeak) {
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
