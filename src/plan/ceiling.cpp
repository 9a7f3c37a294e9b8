#include "plan/ceiling.h"

#include <algorithm>
#include <limits>

#include "base/control_group.h"

#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

namespace martlet {
namespace {

namespace fs = std::filesystem;

int64_t read_field(const fs::path& path, std::string_view name) {
  return find_kernel_field(read_kernel_file(path), name).value_or(0);
}

// What a group's limit leaves to this process, if it has one.
std::optional<int64_t> room_in(const fs::path& folder, int version, int64_t own) {
  const auto limit = memory_limit(folder, version);
  if (!limit) return std::nullopt;
  // Both count descendants; file pages can be taken back, and our own among them are planned for.
  const int64_t held = read_field(folder / "memory.stat", version == 2 ? "anon" : "total_rss");
  return std::max<int64_t>(*limit - *limit / 64 - std::max<int64_t>(held - own, 0), 0);
}

int64_t available_memory() {
#ifdef __APPLE__
  int64_t bytes = 0;
  size_t size = sizeof(bytes);
  return sysctlbyname("hw.memsize", &bytes, &size, nullptr, 0) == 0 ? bytes : 0;
#else
  // MemAvailable counts the page cache that can be dropped, the model file's own pages among it.
  return read_field("/proc/meminfo", "MemAvailable:") * 1024;
#endif
}

}  // namespace

int64_t machine_ceiling(int64_t bytes) {
  return bytes - std::max(bytes / 16, int64_t{256} << 20);
}

std::optional<int64_t> cgroup_room(const fs::path& root, const std::string& membership, int64_t own) {
  std::optional<int64_t> room;
  for (const ControlGroup& group : control_groups(root, membership, "memory")) {
    for (const fs::path& folder : group.folders) {
      if (const auto found = room_in(folder, group.version, own)) room = std::min(*found, room.value_or(*found));
    }
  }
  return room;
}

Ceiling memory_ceiling(int64_t flag) {
  Ceiling ceiling{std::numeric_limits<int64_t>::max(), "unknown machine memory"};
  const auto lower = [&](int64_t bytes, const char* source) {
    if (bytes < ceiling.bytes) ceiling = {bytes, source};
  };
  if (flag > 0) lower(flag, "--memory");
  if (const int64_t available = available_memory(); available > 0)
    lower(machine_ceiling(available), "machine less reserve");
  const int64_t own = read_field("/proc/self/status", "RssAnon:") * 1024;
  if (const auto room = cgroup_room("/sys/fs/cgroup", read_kernel_file("/proc/self/cgroup"), own))
    lower(*room, "cgroup");
  return ceiling;
}

}  // namespace martlet
