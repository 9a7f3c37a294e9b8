#include "plan/ceiling.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <sstream>

#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

namespace martlet {
namespace {

namespace fs = std::filesystem;

std::string read_all(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The number in a cgroup file; nothing for "max" and for version 1's "no limit", a number near 2^63.
std::optional<int64_t> read_limit(const fs::path& path) {
  const std::string text = read_all(path);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value <= 0 || value >= (int64_t{1} << 60)) return std::nullopt;
  return value;
}

// A limit of an ancestor binds too, so the whole way up to the mount is read. In a container the path is often outside
// what is mounted; the mount itself is then the container's own group.
void tighten(std::optional<int64_t>& limit, const fs::path& mount, const std::string& group, const char* file) {
  fs::path path = mount / fs::path(group).lexically_normal().relative_path();
  for (;; path = path.parent_path()) {
    if (const auto found = read_limit(path / file)) limit = std::min(*found, limit.value_or(*found));
    if (path == mount || path.native().size() <= mount.native().size()) break;
  }
}

int64_t available_memory() {
#ifdef __APPLE__
  int64_t bytes = 0;
  size_t size = sizeof(bytes);
  return sysctlbyname("hw.memsize", &bytes, &size, nullptr, 0) == 0 ? bytes : 0;
#else
  // MemAvailable counts the page cache that can be dropped, the model file's own pages among it.
  std::istringstream in(read_all("/proc/meminfo"));
  for (std::string line; std::getline(in, line);) {
    int64_t kilobytes = 0;
    std::istringstream fields(line);
    std::string name;
    if (fields >> name >> kilobytes && name == "MemAvailable:") return kilobytes * 1024;
  }
  return 0;
#endif
}

}  // namespace

std::optional<int64_t> cgroup_limit(const fs::path& root, const std::string& membership) {
  std::optional<int64_t> limit;
  std::istringstream lines(membership);
  // Each line is id:controllers:path; version 2 has no controllers.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") tighten(limit, root, group, "memory.max");
    if (controllers.find(",memory,") != std::string::npos)
      tighten(limit, root / "memory", group, "memory.limit_in_bytes");
  }
  return limit;
}

Ceiling memory_ceiling(int64_t flag) {
  if (flag > 0) return {flag, "--memory"};
  const int64_t available = available_memory();
  Ceiling ceiling{available - std::max(available / 16, int64_t{256} << 20), "machine less reserve"};
  if (available == 0) ceiling = {std::numeric_limits<int64_t>::max(), "unknown machine memory"};
  if (const auto limit = cgroup_limit("/sys/fs/cgroup", read_all("/proc/self/cgroup")); limit && *limit < ceiling.bytes)
    ceiling = {*limit, "cgroup"};
  return ceiling;
}

}  // namespace martlet
