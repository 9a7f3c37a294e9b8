#pragma once

// What happens between an instance's first sign of life and its first request: it is warmed, and compared with the
// upstreams that serve the same model.

#include <memory>

#include "gateway/core.h"

namespace martlet::gateway {

// Called when a probe finds an instance up. One that was started, or seen for the first time, takes requests once it
// has generated a token, seen its shapes and been compared; one that comes back is compared again beside its requests.
void prepare(Core& core, size_t instance);
// Every few seconds, until the context ends: asks compared upstreams for their versions, and compares one that changed
// under way again; and tries those again that have not taken token ids as they should.
void watch_upstreams(Core& core);

}  // namespace martlet::gateway
