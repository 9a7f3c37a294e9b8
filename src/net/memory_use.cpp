#include "net/memory_use.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/control_group.h"

#ifdef __APPLE__
#include <mach/mach.h>
#include <sys/sysctl.h>
#endif

namespace martlet::net {
namespace {

namespace fs = std::filesystem;

int64_t field(const std::string& text, const char* name) {
  return std::max<int64_t>(find_kernel_field(text, name).value_or(0), 0);
}

class LinuxMemoryUse final : public MemoryUseSource {
 public:
  LinuxMemoryUse(fs::path proc, fs::path cgroups) : proc_(std::move(proc)), cgroups_(std::move(cgroups)) {}

  MemoryUse read() override {
    const std::string machine = read_kernel_file(proc_ / "meminfo");
    MemoryUse out{field(machine, "MemTotal:") << 10, field(machine, "MemAvailable:") << 10};
    for (const ControlGroup& group : control_groups(cgroups_, read_kernel_file(proc_ / "self/cgroup"), "memory")) {
      for (const fs::path& folder : group.folders) tighten(out, folder, group.version);
    }
    return out;
  }

 private:
  // Pages of files that were not used lately can be had again at once.
  static void tighten(MemoryUse& out, const fs::path& group, int version) {
    const auto limit = memory_limit(group, version);
    if (!limit) return;
    const int64_t held =
        read_kernel_number(group / (version == 2 ? "memory.current" : "memory.usage_in_bytes")).value_or(0);
    const int64_t idle =
        field(read_kernel_file(group / "memory.stat"), version == 2 ? "inactive_file" : "total_inactive_file");
    const MemoryUse here{*limit, std::clamp<int64_t>(*limit - std::max<int64_t>(held, 0) + idle, 0, *limit)};
    if (here.share() > out.share()) out = here;
  }

  const fs::path proc_, cgroups_;
};

class SimulatedMemoryUse final : public MemoryUseSource {
 public:
  explicit SimulatedMemoryUse(std::string path) : path_(std::move(path)) {}
  MemoryUse read() override {
    constexpr int64_t kTotal = int64_t{1} << 30;
    const double share = std::clamp(std::strtod(read_kernel_file(path_).c_str(), nullptr), 0.0, 1.0);
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
