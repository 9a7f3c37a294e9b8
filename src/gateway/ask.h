#pragma once

#include <memory>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "gateway/answer.h"
#include "gateway/core.h"

namespace martlet::gateway {

struct Asked {
  int status = 0;    // 0: there was no answer, or not the whole of it
  std::string body;  // at most 1 MiB; empty when there was more
};

Verdict verdict_of(const Asked& asked);

// A question of the gateway's own to an upstream, for JSON: GET where `body` is empty, else POST. `config` is that of
// one of the core's upstreams.
boost::asio::awaitable<Asked> ask_upstream(Core& core, std::shared_ptr<net::HttpPeer> peer,
                                           const UpstreamConfig& config, std::string path, std::string body);

}  // namespace martlet::gateway
