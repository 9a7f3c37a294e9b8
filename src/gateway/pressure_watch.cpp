#include "gateway/pressure_watch.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace martlet::gateway {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::milliseconds kLook{250};
constexpr int kLooksAPressure = 2;  // stalls are shares of a time that must not be too short
constexpr const char* kLevels[] = {"normal", "warning", "critical"};

std::string mib(int64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

// What is known of memory, which outlives a look that finds none for itself.
struct Seen {
  explicit Seen(const PressureOptions& options, PressureSources sources) : sources(std::move(sources)), rule(options) {}

  PressureSources sources;
  PressureRule rule;
  int64_t least = 0;  // bytes available when memory became critical
  net::MemoryPressure said = net::MemoryPressure::none;
};

void note(Core& core, const Seen& seen, Pressure before, const net::MemoryUse& use) {
  const bool relieved = before == Pressure::critical;
  core.note({"memory pressure: ", kLevels[static_cast<size_t>(seen.rule.level())], ", ", mib(use.available),
             " available, the system says ", net::name_of(seen.said), relieved ? ", " : "",
             relieved ? mib(use.available - seen.least) : "", relieved ? " came back" : ""});
}

void look(Core& core, Supervisor& supervisor, Seen& seen, bool ask) {
  const net::MemoryUse use = seen.sources.use->read();
  if (ask) seen.said = seen.sources.pressure->read();
  const double reading = reading_of(use.share(), seen.said, core.config.pressure);
  const Pressure before = seen.rule.level(), level = seen.rule.update(reading, core.now());
  core.metrics.memory(use.share(), static_cast<int>(level));
  if (level == before) return;
  core.dispatcher.set_pressure(level);
  supervisor.allow_unbounded(level != Pressure::critical);
  note(core, seen, before, use);
  if (level == Pressure::critical) seen.least = use.available;
  core.settle();
}

asio::awaitable<void> watch(Core& core, Supervisor& supervisor, std::shared_ptr<Seen> seen) {
  asio::steady_timer timer(*core.io);
  for (int looks = 0; !core.closing; ++looks) {
    look(core, supervisor, *seen, looks % kLooksAPressure == 0);
    timer.expires_after(kLook);
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

}  // namespace

void watch_pressure(Core& core, Supervisor& supervisor, PressureSources sources) {
  const auto seen = std::make_shared<Seen>(core.config.pressure, std::move(sources));
  core.run_until_done([&core, &supervisor, seen] { return watch(core, supervisor, seen); });
}

PressureSources make_pressure_sources(const GatewayConfig& config) {
  constexpr std::string_view kFile = "file:";
  if (!config.pressure_source.starts_with(kFile)) return {net::system_memory_use(), net::system_pressure()};
  const std::string path = config.pressure_source.substr(kFile.size());
  return {net::simulated_memory_use(path), net::file_pressure(path)};
}

}  // namespace martlet::gateway
