#pragma once

// How hard the rest of the machine wants memory back, and what to do about it when: first give up what can be had
// again, then take no new work, never break what runs.

#include <chrono>
#include <memory>
#include <string>

#include "base/error.h"

namespace martlet::net {

enum class MemoryPressure { none, some, critical };
const char* name_of(MemoryPressure level);

class PressureSource {
 public:
  virtual ~PressureSource() = default;
  // The level since the call before; to be called every second or so, by one thread.
  virtual MemoryPressure read() = 0;
};

// What the system says. Linux: stalls of the whole machine and of the process's control group (PSI), and the group's
// own events, versions 1 and 2. macOS: the kernel's pressure level. Elsewhere: always none.
std::unique_ptr<PressureSource> system_pressure();
// The Linux source on another /proc and /sys/fs/cgroup.
std::unique_ptr<PressureSource> linux_pressure(const std::string& proc, const std::string& cgroups);
// A file that holds one of the words none, some, critical: for rehearsals and tests. Anything else, and no file, is
// none.
std::unique_ptr<PressureSource> file_pressure(const std::string& path);
// "system", "off" or "file:PATH". Errors: ErrorKind::usage, `invalid_value`.
Result<std::unique_ptr<PressureSource>> make_pressure_source(const std::string& description);

// Turns levels into what to do, with hysteresis. Not thread-safe.
class PressureResponse {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kPatience{1};  // what was given up gets so long to help before work is refused
  static constexpr std::chrono::seconds kCalm{5};      // so long without any pressure, and work is taken again

  struct Advice {
    bool shed = false;    // give up caches and idle models now
    bool refuse = false;  // take no new work
  };
  Advice update(MemoryPressure level, TimePoint now);

 private:
  TimePoint pressed_{}, critical_since_{};
  bool critical_ = false, refusing_ = false;
};

}  // namespace martlet::net
