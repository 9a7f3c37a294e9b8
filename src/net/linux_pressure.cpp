#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/control_group.h"
#include "net/memory_pressure.h"

namespace martlet::net {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Shares of the time since the last look in which some or all tasks waited for memory.
constexpr double kSomeStalled = 0.10, kAllStalled = 0.10;
// A group that runs into its limit merely drops file pages as long as nobody waits for them.
constexpr double kNoticeable = 0.01;
// Share of a version 1 group's limit that cannot be taken back any more.
constexpr double kMostlyHeld = 0.90, kAllHeld = 0.97;

// How far a counter of the kernel came since the last look; 0 at the first.
class Counter {
 public:
  int64_t advance(std::optional<int64_t> value) {
    const int64_t by = value && last_ ? std::max<int64_t>(*value - *last_, 0) : 0;
    if (value) last_ = value;
    return by;
  }

 private:
  std::optional<int64_t> last_;
};

struct Stalls {
  double some = 0, all = 0;
  MemoryPressure level() const {
    if (all >= kAllStalled) return MemoryPressure::critical;
    return some >= kSomeStalled ? MemoryPressure::some : MemoryPressure::none;
  }
};

// Microseconds of "total=" in the line that begins with `name` (Documentation/accounting/psi.rst of the kernel).
std::optional<int64_t> stalled_microseconds(const std::string& text, const char* name) {
  const size_t line = text.find(name);
  const size_t total = line == text.npos ? text.npos : text.find("total=", line);
  if (total == text.npos) return std::nullopt;
  return std::strtoll(text.c_str() + total + 6, nullptr, 10);
}

class StallFile {
 public:
  explicit StallFile(fs::path path) : path_(std::move(path)) {}
  Stalls read(double microseconds) {
    const std::string text = read_kernel_file(path_);
    const int64_t some = some_.advance(stalled_microseconds(text, "some"));
    const int64_t all = all_.advance(stalled_microseconds(text, "full"));
    return {static_cast<double>(some) / microseconds, static_cast<double>(all) / microseconds};
  }

 private:
  fs::path path_;
  Counter some_, all_;
};

// One control group: the process's own or an ancestor.
class Group {
 public:
  Group(int version, const fs::path& folder)
      : version_(version), folder_(folder), stalls_(folder / "memory.pressure") {}

  MemoryPressure read(double microseconds, const Stalls& machine) {
    return version_ == 2 ? read_version_2(microseconds) : read_version_1(machine);
  }

 private:
  MemoryPressure read_version_2(double microseconds) {
    const Stalls stalls = stalls_.read(microseconds);
    const std::string events = read_kernel_file(folder_ / "memory.events");
    const int64_t limits =
        high_.advance(find_kernel_field(events, "high")) + max_.advance(find_kernel_field(events, "max"));
    if (oom_.advance(find_kernel_field(events, "oom")) > 0) return MemoryPressure::critical;
    return std::max(stalls.level(),
                    limits > 0 && stalls.some >= kNoticeable ? MemoryPressure::some : MemoryPressure::none);
  }

  // Version 1 has no stall times of its own.
  MemoryPressure read_version_1(const Stalls& machine) {
    const int64_t failures = max_.advance(read_kernel_number(folder_ / "memory.failcnt"));
    const auto killed = find_kernel_field(read_kernel_file(folder_ / "memory.oom_control"), "oom_kill");
    if (oom_.advance(killed) > 0) return MemoryPressure::critical;
    if (failures == 0) return MemoryPressure::none;
    const auto limit = static_cast<double>(read_kernel_number(folder_ / "memory.limit_in_bytes").value_or(0));
    const auto held =
        static_cast<double>(find_kernel_field(read_kernel_file(folder_ / "memory.stat"), "total_rss").value_or(0));
    if (limit > 0 && held >= limit * kAllHeld) return MemoryPressure::critical;
    const bool tight = (limit > 0 && held >= limit * kMostlyHeld) || machine.some >= kNoticeable;
    return tight ? MemoryPressure::some : MemoryPressure::none;
  }

  int version_;
  fs::path folder_;
  StallFile stalls_;
  Counter high_, max_, oom_;
};

class LinuxPressure final : public PressureSource {
 public:
  LinuxPressure(const fs::path& proc, const fs::path& cgroups) : machine_(proc / "pressure/memory") {
    for (const ControlGroup& group : control_groups(cgroups, read_kernel_file(proc / "self/cgroup"), "memory")) {
      for (const fs::path& folder : group.folders) groups_.emplace_back(group.version, folder);
    }
    read();  // where the counters stand now
  }

  MemoryPressure read() override {
    const Clock::time_point now = Clock::now();
    const double microseconds = std::max(std::chrono::duration<double, std::micro>(now - last_).count(), 1.0);
    last_ = now;
    const Stalls machine = machine_.read(microseconds);
    MemoryPressure level = machine.level();
    for (Group& group : groups_) level = std::max(level, group.read(microseconds, machine));
    return level;
  }

 private:
  StallFile machine_;
  std::vector<Group> groups_;
  Clock::time_point last_ = Clock::now();
};

}  // namespace

std::unique_ptr<PressureSource> linux_pressure(const std::string& proc, const std::string& cgroups) {
  return std::make_unique<LinuxPressure>(proc, cgroups);
}

}  // namespace martlet::net
