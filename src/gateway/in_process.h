#pragma once

// The upstream of kind `martlet`: the program's own engine, behind its own server on a port that only this process has
// the key to. To everything else it is an upstream like any other.

#include <functional>
#include <memory>
#include <vector>

#include "file/model_file.h"
#include "gateway/config.h"
#include "gateway/parity.h"
#include "server/server.h"

namespace martlet::gateway {

// An engine that was planned and not loaded.
struct PlannedEngine {
  int64_t bytes;  // that it will take at most
  std::shared_ptr<const ModelFile> file;
  std::function<Result<std::shared_ptr<const server::ServedModel>>()> load;
};
// How the program, which knows backends and model stores, makes the engine of an upstream.
using PlanEngine = std::function<Result<PlannedEngine>(const UpstreamConfig&)>;

class InProcess {
 public:
  // Fills in where the upstream listens, its key and what it calls its model. Errors: those of loading and listening.
  // `max_body`: bytes of a request's body that it takes at least.
  static Result<std::unique_ptr<InProcess>> start(UpstreamConfig& upstream, const PlannedEngine& engine,
                                                  size_t max_body, bool json_log);
  std::optional<Error> failure() const { return server_->failure(); }
  const Fingerprint& facts() const { return facts_; }  // of the model's file
  void drain(double seconds) { server_->drain(seconds); }

 private:
  InProcess(std::unique_ptr<server::Server> server, Fingerprint facts)
      : server_(std::move(server)), facts_(std::move(facts)) {}
  std::unique_ptr<server::Server> server_;
  Fingerprint facts_;
};

}  // namespace martlet::gateway
