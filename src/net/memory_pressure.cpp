#include "net/memory_pressure.h"

#include <fstream>

#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

namespace martlet::net {
namespace {

class NoPressure final : public PressureSource {
 public:
  MemoryPressure read() override { return MemoryPressure::none; }
};

class FilePressure final : public PressureSource {
 public:
  explicit FilePressure(std::string path) : path_(std::move(path)) {}
  MemoryPressure read() override {
    std::string word;
    std::ifstream(path_) >> word;
    for (const MemoryPressure level : {MemoryPressure::some, MemoryPressure::critical}) {
      if (word == name_of(level)) return level;
    }
    return MemoryPressure::none;
  }

 private:
  const std::string path_;
};

#ifdef __APPLE__
class MacPressure final : public PressureSource {
 public:
  // 1 normal, 2 warning, 4 critical (DISPATCH_MEMORYPRESSURE_*).
  MemoryPressure read() override {
    int level = 1;
    size_t size = sizeof(level);
    if (sysctlbyname("kern.memorystatus_vm_pressure_level", &level, &size, nullptr, 0) != 0)
      return MemoryPressure::none;
    return level >= 4 ? MemoryPressure::critical : level >= 2 ? MemoryPressure::some : MemoryPressure::none;
  }
};
#endif

}  // namespace

const char* name_of(MemoryPressure level) {
  constexpr const char* kNames[] = {"none", "some", "critical"};
  return kNames[static_cast<int>(level)];
}

std::unique_ptr<PressureSource> file_pressure(const std::string& path) {
  return std::make_unique<FilePressure>(path);
}

std::unique_ptr<PressureSource> system_pressure() {
#if defined(__APPLE__)
  return std::make_unique<MacPressure>();
#elif defined(__linux__)
  return linux_pressure("/proc", "/sys/fs/cgroup");
#else
  return std::make_unique<NoPressure>();
#endif
}

Result<std::unique_ptr<PressureSource>> make_pressure_source(const std::string& description) {
  if (description == "system") return system_pressure();
  if (description == "off") return std::unique_ptr<PressureSource>(std::make_unique<NoPressure>());
  if (description.starts_with("file:") && description.size() > 5) return file_pressure(description.substr(5));
  return Error{ErrorKind::usage, "invalid_value", "must be system, off or file:PATH", "--pressure"};
}

PressureResponse::Advice PressureResponse::update(MemoryPressure level, TimePoint now) {
  if (level != MemoryPressure::none) pressed_ = now;
  const bool critical = level == MemoryPressure::critical;
  if (critical && !critical_) critical_since_ = now;
  critical_ = critical;
  if (critical && now - critical_since_ >= kPatience) refusing_ = true;
  if (refusing_ && now - pressed_ >= kCalm) refusing_ = false;
  return {level != MemoryPressure::none, refusing_};
}

}  // namespace martlet::net
