#include "gateway/pressure_watch.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
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

asio::awaitable<void> watch(Core& core, Supervisor& supervisor, PressureSources sources) {
  asio::steady_timer timer(*core.io);
  PressureRule rule(core.config.pressure);
  int64_t least = 0;  // bytes available when memory became critical
  net::MemoryPressure said = net::MemoryPressure::none;
  for (int look = 0; !core.closing; ++look) {
    const net::MemoryUse use = sources.use->read();
    if (look % kLooksAPressure == 0) said = sources.pressure->read();
    const double reading = reading_of(use.share(), said, core.config.pressure);
    const Pressure before = rule.level(), level = rule.update(reading, core.now());
    core.metrics.memory(use.share(), static_cast<int>(level));
    if (level != before) {
      core.log.note(std::string("memory pressure: ") + kLevels[static_cast<size_t>(level)] + ", " + mib(use.available) +
                    " available, the system says " + net::name_of(said) +
                    (before == Pressure::critical ? ", " + mib(use.available - least) + " came back" : ""));
      if (level == Pressure::critical) least = use.available;
      core.dispatcher.set_pressure(level);
      supervisor.allow_unbounded(level != Pressure::critical);
      core.settle();
    }
    timer.expires_after(kLook);
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

}  // namespace

void watch_pressure(Core& core, Supervisor& supervisor, PressureSources sources) {
  asio::co_spawn(*core.io, watch(core, supervisor, std::move(sources)), asio::detached);
}

PressureSources make_pressure_sources(const GatewayConfig& config) {
  constexpr std::string_view kFile = "file:";
  if (!config.pressure_source.starts_with(kFile)) return {net::system_memory_use(), net::system_pressure()};
  const std::string path = config.pressure_source.substr(kFile.size());
  return {net::simulated_memory_use(path), net::file_pressure(path)};
}

}  // namespace martlet::gateway
