#pragma once

// Where Linux says what a process's control groups allow and hold, versions 1 and 2.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace martlet {

// The folders of one process's groups under one controller of one version.
struct ControlGroup {
  int version;                                 // 1 or 2
  std::vector<std::filesystem::path> folders;  // the group's own first, then its ancestors up to the mount
};

// `membership`: the text of /proc/self/cgroup; `root`: where the hierarchies are mounted (/sys/fs/cgroup);
// `controller`: "memory", "cpu" ... Folders need not exist. In a container the group's path is often outside what is
// mounted; the mount itself is then the container's own group.
std::vector<ControlGroup> control_groups(const std::filesystem::path& root, const std::string& membership,
                                         const std::string& controller);

// What a group of the memory controller may hold; nothing where it has no limit.
std::optional<int64_t> memory_limit(const std::filesystem::path& folder, int version);

// Files of the kernel: short texts, read in one go. Empty, or nothing, where there is no such file or field.
std::string read_kernel_file(const std::filesystem::path& path);
// The number that a file holds; nothing for "max".
std::optional<int64_t> read_kernel_number(const std::filesystem::path& path);
// The number behind `name` in a text of lines "name number", whatever follows it.
std::optional<int64_t> find_kernel_field(const std::string& text, std::string_view name);

}  // namespace martlet
