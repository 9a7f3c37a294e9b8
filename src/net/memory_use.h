#pragma once

// How much of the memory that this process lives in is taken: the machine's, or its control group's where that is
// tighter.

#include <cstdint>
#include <memory>
#include <string>

namespace martlet::net {

struct MemoryUse {
  int64_t total = 0, available = 0;  // bytes; available: without pushing anything else out
  double share() const { return total > 0 ? 1 - static_cast<double>(available) / static_cast<double>(total) : 0; }
};

class MemoryUseSource {
 public:
  virtual ~MemoryUseSource() = default;
  virtual MemoryUse read() = 0;
};

// Linux: /proc/meminfo and the control groups, versions 1 and 2. macOS: the kernel's page counts.
std::unique_ptr<MemoryUseSource> system_memory_use();
// The Linux source on another /proc and /sys/fs/cgroup.
std::unique_ptr<MemoryUseSource> linux_memory_use(const std::string& proc, const std::string& cgroups);
// A file that holds the share taken, a number from 0 to 1, for rehearsals and tests; no file, or anything else, is 0.
std::unique_ptr<MemoryUseSource> simulated_memory_use(const std::string& path);

}  // namespace martlet::net
