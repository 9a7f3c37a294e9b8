#pragma once

#include <memory>

#include "gateway/core.h"
#include "gateway/supervisor.h"
#include "net/memory_use.h"

namespace martlet::gateway {

// Reads memory four times a second and tells the dispatcher and the supervisor what follows, until the context ends.
void watch_pressure(Core& core, Supervisor& supervisor, std::unique_ptr<net::MemoryUseSource> source);
// The source that a configuration names.
std::unique_ptr<net::MemoryUseSource> make_memory_source(const GatewayConfig& config);

}  // namespace martlet::gateway
