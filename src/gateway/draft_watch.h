#pragma once

#include "gateway/core.h"

namespace martlet::gateway {

// Reads once a second what the instances of speculating upstreams count of their drafts in /metrics, until the context
// ends; of those whose answers say it themselves, nothing; of those that count none, twice a minute. I/O thread.
void watch_drafts(Core& core);

}  // namespace martlet::gateway
