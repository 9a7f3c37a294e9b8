#include "bench/process_tree.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#ifdef __APPLE__
#include <libproc.h>
#include <sys/resource.h>
#else
#include <unistd.h>

#include "base/control_group.h"
#endif

namespace martlet::bench {
namespace {

#ifdef __APPLE__

std::vector<int> children_of(int process) {
  std::vector<int> out(1024);
  const int count = proc_listchildpids(process, out.data(), static_cast<int>(out.size() * sizeof(int)));
  out.resize(static_cast<size_t>(std::max(count, 0)));
  return out;
}

std::optional<rusage_info_v2> usage_of(int process) {
  rusage_info_v2 usage;
  if (proc_pid_rusage(process, RUSAGE_INFO_V2, reinterpret_cast<rusage_info_t*>(&usage)) != 0) return std::nullopt;
  return usage;
}

std::optional<int64_t> memory_of_one(int process) {
  const auto usage = usage_of(process);
  return usage ? std::optional(static_cast<int64_t>(usage->ri_phys_footprint)) : std::nullopt;
}

double cpu_seconds_of_one(int process) {
  const auto usage = usage_of(process);
  return usage ? static_cast<double>(usage->ri_user_time + usage->ri_system_time) / 1e9 : 0;
}

#else

std::string proc(int process, const char* name) {
  return "/proc/" + std::to_string(process) + "/" + name;
}

// Each is listed by the thread that started it.
std::vector<int> children_of(int process) {
  std::vector<int> out;
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator(proc(process, "task"), gone)) {
    std::ifstream in(thread.path() / "children");
    for (int child; in >> child;) out.push_back(child);
  }
  return out;
}

std::optional<int64_t> memory_of_one(int process) {
  const auto kib = find_kernel_field(read_kernel_file(proc(process, "smaps_rollup")), "Pss:");
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

double cpu_seconds_of_one(int process) {
  std::ifstream in(proc(process, "stat"));
  std::string line;
  std::getline(in, line);
  const size_t name_end = line.rfind(')');  // the name may hold anything
  if (name_end == line.npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int i = 3; i < 14; ++i) fields >> skipped;
  double user = 0, system = 0, children_user = 0, children_system = 0;
  fields >> user >> system >> children_user >> children_system;
  return (user + system + children_user + children_system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

#endif

}  // namespace

std::vector<int> process_tree(int root) {
  std::vector<int> out = {root};
  for (size_t i = 0; i < out.size(); ++i) {
    for (const int child : children_of(out[i]))
      if (std::find(out.begin(), out.end(), child) == out.end()) out.push_back(child);
  }
  return out;
}

std::optional<int64_t> memory_of(const std::vector<int>& roots) {
  std::optional<int64_t> sum;
  for (const int root : roots)
    for (const int process : process_tree(root))
      if (const auto bytes = memory_of_one(process)) sum = sum.value_or(0) + *bytes;
  return sum;
}

double cpu_seconds_of(const std::vector<int>& roots) {
  double sum = 0;
  for (const int root : roots)
    for (const int process : process_tree(root)) sum += cpu_seconds_of_one(process);
  return sum;
}

}  // namespace martlet::bench
