#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "gateway/config.h"

namespace martlet::gateway {

// Holds what all upstreams together may take under one ceiling, before any of them starts. `peaks`: bytes of one
// instance of each upstream, 0 for those that the gateway does not start. Errors: ErrorKind::memory `does_not_fit` with
// the sum, its parts and the ceiling.
Status check_memory_sum(const GatewayConfig& config, const std::vector<int64_t>& peaks);

}  // namespace martlet::gateway
