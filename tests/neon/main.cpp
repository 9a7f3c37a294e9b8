// Runs the checks of the matrix kernels and of attention at every level that this processor, or its emulator, has.

#include <cstdio>
#include <string>

#include "attention_checks.h"
#include "backend/cpu/isa/level.h"
#include "linear_checks.h"

int main() {
  static int failed = 0;
  for (const martlet::cpu::Level* level : martlet::cpu::levels()) {
    std::printf("%s: %s\n", std::string(level->name).c_str(), level->available() ? "checked" : "not on this processor");
  }
  const auto report = [](const std::string& text) {
    ++failed;
    std::printf("%s\n", text.c_str());
  };
  const int64_t checks = martlet::cpu::run_all_linear_checks(report) + martlet::cpu::run_all_attention_checks(report);
  std::printf("%lld checks, %d failed\n", static_cast<long long>(checks), failed);
  return failed == 0 ? 0 : 1;
}
