#include "backend/cpu/cores.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <thread>

#include "base/control_group.h"

#ifdef __linux__
#include <sched.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace martlet::cpu {
namespace {

std::string first_line(const std::filesystem::path& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

// "0-3,8" as the kernel writes lists of processors.
std::set<int> parse_list(const std::string& text) {
  std::set<int> out;
  std::istringstream items(text);
  int first = 0;
  while (items >> first) {
    int last = first;
    if (items.peek() == '-') {
      items.ignore();
      if (!(items >> last)) break;
    }
    for (int i = first; i <= last && i < first + 65'536; ++i) out.insert(i);
    if (items.peek() == ',') items.ignore();
  }
  return out;
}

// Intel names its efficiency cores; ARM gives each core a capacity. What is less than half of the best is left out: a
// matrix split evenly would wait for it.
std::vector<int> fast_processors(const std::vector<int>& allowed, const std::string& root) {
  const std::set<int> slow = parse_list(first_line(root + "/sys/devices/cpu_atom/cpus"));
  std::vector<int> capacities;
  for (int cpu : allowed) {
    int capacity = slow.contains(cpu) ? 0 : 1024;
    std::istringstream(first_line(root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpu_capacity")) >>
        capacity;
    capacities.push_back(capacity);
  }
  std::vector<int> out;
  const int best = capacities.empty() ? 0 : *std::max_element(capacities.begin(), capacities.end());
  for (size_t i = 0; i < allowed.size(); ++i) {
    if (capacities[i] * 2 >= best) out.push_back(allowed[i]);
  }
  return out;
}

int physical_cores(const std::vector<int>& processors, const std::string& root) {
  std::set<std::string> cores;
  for (int cpu : processors) {
    const std::string topology = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    std::string siblings = first_line(topology + "thread_siblings_list");
    cores.insert(siblings.empty() ? std::to_string(cpu) : siblings);
  }
  return static_cast<int>(cores.size());
}

// Whole processors that a quota grants; a fraction is dropped, as threads that exhaust a quota all stall together.
int quota_of(double quota, double period) {
  return quota > 0 && period > 0 ? std::max(1, static_cast<int>(quota / period)) : std::numeric_limits<int>::max();
}

int quota_in(const std::filesystem::path& folder, int version) {
  double quota = 0, period = 0;  // "max 100000" leaves the quota 0
  if (version == 2) {
    std::istringstream(first_line(folder / "cpu.max")) >> quota >> period;
  } else {
    std::istringstream(first_line(folder / "cpu.cfs_quota_us")) >> quota;
    std::istringstream(first_line(folder / "cpu.cfs_period_us")) >> period;
  }
  return quota_of(quota, period);
}

// The tightest quota from the process's group up to the root of the hierarchy.
int cgroup_quota(const std::string& root) {
  int out = std::numeric_limits<int>::max();
  const std::string membership = read_kernel_file(root + "/proc/self/cgroup");
  for (const ControlGroup& group : control_groups(root + "/sys/fs/cgroup", membership, "cpu")) {
    for (const auto& folder : group.folders) out = std::min(out, quota_in(folder, group.version));
  }
  return out;
}

}  // namespace

std::vector<int> allowed_processors() {
  std::vector<int> out;
#ifdef __linux__
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) out.push_back(cpu);
    }
  }
#endif
  return out;
}

int usable_cores(const std::vector<int>& allowed, const std::string& root) {
#ifdef __APPLE__
  for (const char* name : {"hw.perflevel0.physicalcpu", "hw.physicalcpu"}) {
    int32_t count = 0;
    size_t size = sizeof count;
    if (sysctlbyname(name, &count, &size, nullptr, 0) == 0 && count > 0) return count;
  }
#endif
  const int cores = allowed.empty() ? static_cast<int>(std::thread::hardware_concurrency())
                                    : physical_cores(fast_processors(allowed, root), root);
  return std::max(1, std::min(cores, cgroup_quota(root)));
}

}  // namespace martlet::cpu
