#include "bench/machine.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

#include <fmt/format.h>

#include "base/control_group.h"
#include "bench/process_tree.h"
#include "net/memory_use.h"

namespace martlet::bench {
namespace {

namespace fs = std::filesystem;

constexpr double kOtherCores = 0.1;    // used by other programs, beyond which a run is noisy
constexpr double kStolenShare = 0.02;  // of the time of all cores
constexpr double kLookShare = 0.002;   // of a core, for looking at memory

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double self_seconds() {
  rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

#ifdef __APPLE__

std::string processor_name() {
  char name[256] = "";
  size_t size = sizeof name - 1;
  ::sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0);
  return name;
}

#else

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return "";
}

#endif

double read_number(const fs::path& path) {
  return static_cast<double>(read_kernel_number(path).value_or(0));
}

double throttle_count() {
  double sum = 0;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator("/sys/devices/system/cpu", code)) {
    const fs::path folder = entry.path() / "thermal_throttle";
    sum += read_number(folder / "core_throttle_count") + read_number(folder / "package_throttle_count");
  }
  return sum;
}

}  // namespace

Machine describe_machine() {
  Machine m;
  m.processor = processor_name();
  utsname name{};
  ::uname(&name);
  m.system = std::string(name.sysname) + " " + name.release;
  if (m.processor.empty()) m.processor = name.machine;
  m.cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  m.memory_gib = static_cast<double>(net::system_memory_use()->read().total) / (1 << 30);
  return m;
}

Watch::Counters Watch::read(const std::vector<int>& roots) {
  Counters c;
  c.time = now();
  c.own = cpu_seconds_of(roots);
  // An engine in this process is among the roots: its time cannot be told from the harness's.
  if (std::find(roots.begin(), roots.end(), ::getpid()) == roots.end()) c.self = self_seconds();
  c.throttled = throttle_count();
  std::ifstream in("/proc/stat");  // "cpu user nice system idle iowait irq softirq steal ..."
  std::string label;
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, irq = 0, soft = 0, stolen = 0;
  if (!(in >> label >> user >> nice >> system >> idle >> waiting >> irq >> soft >> stolen)) {
    c.busy = -1;
    return c;
  }
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  c.busy = (user + nice + system + irq + soft) / ticks;
  c.stolen = stolen / ticks;
  return c;
}

Watch::Watch(std::vector<int> roots) : roots_(std::move(roots)), begin_(read(roots_)), next_look_(begin_.time) {}

void Watch::look() {
  const double start = now();
  if (roots_.empty() || start < next_look_) return;
  peak_ = std::max(peak_, memory_of(roots_).value_or(0));
  next_look_ = now() + std::max(0.5, (now() - start) / kLookShare);
}

void Watch::end() {
  next_look_ = 0;
  look();
  const Counters c = read(roots_);
  const double time = std::max(c.time - begin_.time, 1e-3);
  harness_cores_ = (c.self - begin_.self) / time;
  energy_ = meter_.joules();
  if (c.throttled > begin_.throttled) noise_.push_back("the processor was slowed down for heat or power");
  // Clock ticks of 10 ms: shorter spans say nothing.
  if (c.busy < 0 || time < 1) return;
  const double others = (c.busy - begin_.busy - (c.own - begin_.own) - (c.self - begin_.self)) / time;
  // Without processes of ours, whoever answers is among the others.
  if (!roots_.empty() && others > kOtherCores)
    noise_.push_back(fmt::format("other programs used {:.2f} cores", others));
  const double stolen = (c.stolen - begin_.stolen) / time / std::max(1u, std::thread::hardware_concurrency());
  if (stolen > kStolenShare) noise_.push_back(fmt::format("the host took {:.0f} % of the time away", 100 * stolen));
}

}  // namespace martlet::bench
