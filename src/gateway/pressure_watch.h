#pragma once

#include <memory>

#include "gateway/core.h"
#include "gateway/supervisor.h"
#include "net/memory_pressure.h"
#include "net/memory_use.h"

namespace martlet::gateway {

// How much is taken, and how the system says it bears that.
struct PressureSources {
  std::unique_ptr<net::MemoryUseSource> use;
  std::unique_ptr<net::PressureSource> pressure;
};

// Reads memory four times a second, what the system says twice, and tells the dispatcher and the supervisor what
// follows, until the context ends.
void watch_pressure(Core& core, Supervisor& supervisor, PressureSources sources);
// Those that a configuration names: the system's, or a file that holds a share from 0 to 1 or a word (none, some,
// critical).
PressureSources make_pressure_sources(const GatewayConfig& config);

}  // namespace martlet::gateway
