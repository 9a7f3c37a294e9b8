#pragma once

namespace martlet::cpu {

// In loops that wait: leaves the core's other thread, and the power, to others.
inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace martlet::cpu
