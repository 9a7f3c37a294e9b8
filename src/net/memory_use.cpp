#include "net/memory_use.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#ifdef __APPLE__
#include <mach/mach.h>
#include <sys/sysctl.h>
#endif

namespace martlet::net {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

// The number after `name` at the beginning of a line; -1 when there is none ("max" among them).
int64_t field(const std::string& text, const std::string& name) {
  for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
    if (at > 0 && text[at - 1] != '\n') continue;
    const char* begin = text.c_str() + at + name.size();
    char* end = nullptr;
    const long long value = std::strtoll(begin, &end, 10);
    return end == begin ? -1 : value;
  }
  return -1;
}

class LinuxMemoryUse final : public MemoryUseSource {
 public:
  LinuxMemoryUse(fs::path proc, fs::path cgroups) : proc_(std::move(proc)), cgroups_(std::move(cgroups)) {}

  MemoryUse read() override {
    const std::string machine = read_text(proc_ / "meminfo");
    MemoryUse out{std::max<int64_t>(field(machine, "MemTotal:"), 0) << 10,
                  std::max<int64_t>(field(machine, "MemAvailable:"), 0) << 10};
    const std::string groups = "\n" + read_text(proc_ / "self/cgroup");
    const size_t own = groups.find("\n0::/");
    if (own == groups.npos) return out;
    fs::path path = groups.substr(own + 5, groups.find('\n', own + 1) - own - 5);
    for (;; path = path.parent_path()) {
      tighten(out, cgroups_ / path);
      if (path.empty()) return out;
    }
  }

 private:
  // Pages of files that were not used lately can be had again at once.
  static void tighten(MemoryUse& out, const fs::path& group) {
    const int64_t limit = field(read_text(group / "memory.max"), "");
    if (limit <= 0) return;
    const int64_t current = std::max<int64_t>(field(read_text(group / "memory.current"), ""), 0);
    const int64_t idle = std::max<int64_t>(field(read_text(group / "memory.stat"), "inactive_file "), 0);
    const MemoryUse here{limit, std::clamp<int64_t>(limit - current + idle, 0, limit)};
    if (here.share() > out.share()) out = here;
  }

  const fs::path proc_, cgroups_;
};

class SimulatedMemoryUse final : public MemoryUseSource {
 public:
  explicit SimulatedMemoryUse(std::string path) : path_(std::move(path)) {}
  MemoryUse read() override {
    constexpr int64_t kTotal = int64_t{1} << 30;
    const double share = std::clamp(std::strtod(read_text(path_).c_str(), nullptr), 0.0, 1.0);
    return {kTotal, kTotal - static_cast<int64_t>(share * static_cast<double>(kTotal))};
  }

 private:
  const std::string path_;
};

#ifdef __APPLE__
class MacMemoryUse final : public MemoryUseSource {
 public:
  MemoryUse read() override {
    MemoryUse out;
    size_t size = sizeof out.total;
    sysctlbyname("hw.memsize", &out.total, &size, nullptr, 0);
    vm_statistics64_data_t pages{};
    mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
    if (host_statistics64(mach_host_self(), HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&pages), &count) ==
        KERN_SUCCESS) {
      out.available = static_cast<int64_t>(pages.free_count + pages.inactive_count + pages.purgeable_count) *
                      static_cast<int64_t>(vm_kernel_page_size);
    }
    return out;
  }
};
#endif

}  // namespace

std::unique_ptr<MemoryUseSource> linux_memory_use(const std::string& proc, const std::string& cgroups) {
  return std::make_unique<LinuxMemoryUse>(proc, cgroups);
}

std::unique_ptr<MemoryUseSource> simulated_memory_use(const std::string& path) {
  return std::make_unique<SimulatedMemoryUse>(path);
}

std::unique_ptr<MemoryUseSource> system_memory_use() {
#ifdef __APPLE__
  return std::make_unique<MacMemoryUse>();
#else
  return linux_memory_use("/proc", "/sys/fs/cgroup");
#endif
}

}  // namespace martlet::net
