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

// `flag` when positive; else the smallest of the cgroup's limit and the machine's available memory less a reserve of a
// sixteenth (at least 256 MiB) for everything else that runs on it.
Ceiling memory_ceiling(int64_t flag);

// The tightest limit of the cgroup that `membership` (the text of /proc/self/cgroup) names, versions 1 and 2, from the
// hierarchies mounted under `root` (/sys/fs/cgroup). Nothing where there is no limit.
std::optional<int64_t> cgroup_limit(const std::filesystem::path& root, const std::string& membership);

}  // namespace martlet
