#pragma once

#include <memory>

#include "gateway/core.h"
#include "net/exchange.h"

namespace martlet::gateway {

// Takes one request to an upstream and its answer back. Before the first byte of an answer a failure moves the request
// to another instance, once; the client gets exactly one answer. Call on the I/O thread.
void forward(Core& core, std::shared_ptr<net::Exchange> exchange);

}  // namespace martlet::gateway
