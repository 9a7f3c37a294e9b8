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
constexpr const char* kLevels[] = {"normal", "warning", "critical"};

std::string mib(int64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

asio::awaitable<void> watch(Core& core, Supervisor& supervisor, std::unique_ptr<net::MemoryUseSource> source) {
  asio::steady_timer timer(*core.io);
  PressureRule rule(core.config.pressure);
  int64_t least = 0;  // bytes available when memory became critical
  while (!core.closing) {
    const net::MemoryUse use = source->read();
    const Pressure before = rule.level(), level = rule.update(use.share(), core.now());
    core.metrics.memory(use.share(), static_cast<int>(level));
    if (level != before) {
      core.log.note(std::string("memory pressure: ") + kLevels[static_cast<size_t>(level)] + ", " + mib(use.available) +
                    " available" +
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

void watch_pressure(Core& core, Supervisor& supervisor, std::unique_ptr<net::MemoryUseSource> source) {
  asio::co_spawn(*core.io, watch(core, supervisor, std::move(source)), asio::detached);
}

std::unique_ptr<net::MemoryUseSource> make_memory_source(const GatewayConfig& config) {
  constexpr std::string_view kFile = "file:";
  if (!config.pressure_source.starts_with(kFile)) return net::system_memory_use();
  return net::simulated_memory_use(config.pressure_source.substr(kFile.size()));
}

}  // namespace martlet::gateway
