#pragma once

// What each route does. The handlers run on the I/O thread and leave to a worker whatever takes time: parsing,
// rendering and tokenizing a body of many megabytes must not hold up everyone's tokens.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/exchange.h"
#include "net/http_server.h"
#include "server/api_keys.h"
#include "server/metrics.h"
#include "server/served_model.h"

namespace martlet::server {

class Handlers {
 public:
  // `keys` say whose a request is and live longer than this.
  Handlers(ApiPolicy policy, const ApiKeys& keys) : policy_(policy), keys_(keys) {}
  void attach(net::HttpServer* http) { http_ = http; }  // before the first request

  // I/O thread only. The model answers from now on.
  void serve(std::shared_ptr<const ServedModel> model) { models_.push_back(std::move(model)); }
  void drain() { draining_ = true; }
  bool loading() const { return models_.empty(); }
  bool draining() const { return draining_; }
  // Why generating routes cannot answer now, if they cannot.
  std::optional<net::HttpResponse> unavailable() const;
  Metrics& counters() { return metrics_; }

  void chat(std::shared_ptr<net::Exchange> exchange);
  void text(std::shared_ptr<net::Exchange> exchange);
  void models(std::shared_ptr<net::Exchange> exchange);
  void model(std::shared_ptr<net::Exchange> exchange);
  void tokenize(std::shared_ptr<net::Exchange> exchange);
  void detokenize(std::shared_ptr<net::Exchange> exchange);
  void health(std::shared_ptr<net::Exchange> exchange);
  void metrics(std::shared_ptr<net::Exchange> exchange);

 private:
  using Models = std::vector<std::shared_ptr<const ServedModel>>;
  using Task = std::function<Status(const Models& models, std::shared_ptr<net::Exchange> exchange)>;

  // Runs `task` on a worker; an error it returns, or memory it does not get, becomes the answer.
  void work(std::shared_ptr<net::Exchange> exchange, Task task);
  void complete(std::shared_ptr<net::Exchange> exchange, Endpoint endpoint);

  ApiPolicy policy_;
  const ApiKeys& keys_;
  net::HttpServer* http_ = nullptr;
  Metrics metrics_;
  Models models_;  // the first is "default"
  bool draining_ = false;
};

// The model of that name, or "default". Errors: `model_not_found`, `invalid_path` for names that walk a file system.
Result<std::shared_ptr<const ServedModel>> find_model(const std::vector<std::shared_ptr<const ServedModel>>& models,
                                                      const std::string& name);

}  // namespace martlet::server
