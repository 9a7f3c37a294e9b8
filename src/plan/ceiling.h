#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace martlet {

// The most memory that this process may plan with, and who says so.
struct Ceiling {
  int64_t bytes = 0;
  std::string source;
};

// The smallest of `flag` (when positive), the room in the process's cgroup and the machine's available memory less the
// reserve of machine_ceiling().
Ceiling memory_ceiling(int64_t flag);

// What of a machine with so much memory may be planned with: all but a sixteenth (at least 256 MiB) for everything else
// that runs on it.
int64_t machine_ceiling(int64_t bytes);

// What the cgroup that `membership` (the text of /proc/self/cgroup) names still has room for, versions 1 and 2, from
// the hierarchies mounted under `root` (/sys/fs/cgroup): over all ancestors the smallest limit less a sixty-fourth,
// since page tables and sockets count too, and less what others in the group hold. `own`: bytes of anonymous memory
// that are this process's. Nothing where there is no limit.
std::optional<int64_t> cgroup_room(const std::filesystem::path& root, const std::string& membership, int64_t own);

}  // namespace martlet
