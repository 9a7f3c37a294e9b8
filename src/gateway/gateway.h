#pragma once

// One API in front of several runtimes.

#include <memory>
#include <string>

#include "base/error.h"
#include "gateway/config.h"
#include "gateway/in_process.h"

namespace martlet::gateway {

class Gateway {
 public:
  // Listens, loads and starts what it is to start, and watches the upstreams. Errors: ErrorKind::usage `key_needed`,
  // `no_upstream_fits` when no upstream's conditions hold on this machine; ErrorKind::memory `does_not_fit` when what
  // it would start takes too much together; those of net::HttpServer::open and of loading.
  static Result<std::unique_ptr<Gateway>> start(GatewayConfig config, const PlanEngine& plan, bool json_log);
  ~Gateway();
  // What start() checks before it loads, starts or listens: the same errors, and those of reading the models that it
  // would run itself.
  static Status check(GatewayConfig config, const PlanEngine& plan);

  // New requests get 503, running ones finish or are cut after `seconds`; then the gateway ends.
  void drain(double seconds);
  // Why an engine of its own cannot go on, when one cannot: whoever started the gateway is to start it again.
  std::optional<Error> failure() const;
  std::string address() const;
  void note(std::string_view text);

 private:
  struct State;
  explicit Gateway(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace martlet::gateway
