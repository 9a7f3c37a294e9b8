#pragma once

// What each route does. The handlers run on the I/O thread and leave to a worker whatever takes time: parsing,
// rendering and tokenizing a body of many megabytes must not hold up everyone's tokens.

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "net/exchange.h"
#include "net/http_server.h"
#include "net/memory_pressure.h"
#include "server/access_log.h"
#include "server/api_keys.h"
#include "server/metrics.h"
#include "server/model_manager.h"

namespace martlet::server {

class Handlers {
 public:
  // `keys` say whose a request is; they, `models` and `log` live longer than this. `log`: of completions; may be null.
  Handlers(ApiPolicy policy, const ApiKeys& keys, ModelManager& models, AccessLog* log)
      : policy_(policy), keys_(keys), models_(models), log_(log) {}
  void attach(net::HttpServer* http) { http_ = http; }  // before the first request

  void open() { open_ = true; }  // there are models to ask for
  void drain() { draining_ = true; }
  // Under memory pressure requests for new work are refused.
  void set_pressure(net::MemoryPressure level, bool refusing) {
    pressure_ = level;
    refusing_ = refusing;
  }
  // Why generating routes cannot answer now, if they cannot.
  std::optional<net::HttpResponse> unavailable() const;
  Metrics& counters() { return metrics_; }
  MemoryReport memory() const;
  EngineStats total_stats() const;  // of all models, those that were unloaded included

  void chat(std::shared_ptr<net::Exchange> exchange);
  void text(std::shared_ptr<net::Exchange> exchange);
  void models(std::shared_ptr<net::Exchange> exchange);
  void model(std::shared_ptr<net::Exchange> exchange);
  void tokenize(std::shared_ptr<net::Exchange> exchange);
  void detokenize(std::shared_ptr<net::Exchange> exchange);
  void health(std::shared_ptr<net::Exchange> exchange);
  void metrics(std::shared_ptr<net::Exchange> exchange);

 private:
  using Model = ModelManager::Model;
  using ExchangePointer = std::shared_ptr<net::Exchange>;

  // Runs `task` on a worker; an error it returns, or memory it does not get, becomes the answer.
  void work(ExchangePointer exchange, std::function<Status(const ExchangePointer&)> task);
  // Runs `task` with the model, on this thread when it is loaded and on a worker once it is; not at all when the client
  // has left by then. The task drops the lease before its answer is out.
  Status with_model(const ExchangePointer& exchange, const std::string& name, std::optional<KeepAlive> keep_alive,
                    std::function<Status(Model, const ExchangePointer&)> task);
  void complete(ExchangePointer exchange, Endpoint endpoint);

  ApiPolicy policy_;
  const ApiKeys& keys_;
  ModelManager& models_;
  AccessLog* const log_;
  net::HttpServer* http_ = nullptr;
  Metrics metrics_;
  std::atomic<bool> open_{false}, draining_{false}, refusing_{false};
  std::atomic<net::MemoryPressure> pressure_{net::MemoryPressure::none};
};

}  // namespace martlet::server
