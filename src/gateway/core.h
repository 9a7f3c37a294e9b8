#pragma once

// What the parts of a running gateway share. Everything here lives on the server's I/O thread.

#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "gateway/buckets.h"
#include "gateway/config.h"
#include "gateway/dispatcher.h"
#include "gateway/draft_estimate.h"
#include "gateway/draft_rule.h"
#include "gateway/metrics.h"
#include "gateway/parity.h"
#include "gateway/spawn.h"
#include "gateway/text_model.h"
#include "net/http_call.h"
#include "net/http_server.h"
#include "server/access_log.h"

namespace martlet::gateway {

struct Upstream {
  UpstreamConfig config;
  TokenEstimate estimate;
  DraftRule drafts;
  PairedRates draft_rates;
  bool answers_count_drafts = false;
  std::shared_ptr<const TextModel> text;   // what makes its token ids; null: it gets text
  std::shared_ptr<net::TlsClient> tls;     // whom connections to it trust; null: plain http
  std::string version;                     // as it says when it is compared; may be empty
  Fingerprint file_facts;                  // of its model's file; empty where that is not known
  std::optional<Fingerprint> fingerprint;  // absent until it was asked everything
  std::string unfinished;                  // why it could not be asked everything the last time; empty: it was
  OptionalRoutes optional_routes;          // whether its comparison waits for them
  std::string noted;                       // the failure that the log tells of; empty once a request succeeds
  std::vector<std::string> different;      // aspects in which it differs from the reference, and that are not accepted
  bool alike = false;                      // it was compared and does as the reference, or need not be
  std::optional<bool> takes_ids;           // where it gets token ids: it does as it should; absent until it has shown
};

// A request whose answer is not whole yet.
class Unanswered {
 public:
  // It gets no more than this: an answer, or the last event of one that has begun. Does not throw.
  virtual void fail(const Error& error) = 0;

 protected:
  ~Unanswered() = default;
};

struct Core {
  explicit Core(GatewayConfig config, bool json_log);

  Time now() const { return std::chrono::steady_clock::now(); }
  Upstream& upstream_of(size_t instance) { return upstreams[dispatcher.instances()[instance].upstream]; }
  // Something changed that waiting requests may profit from.
  void settle() {
    if (!closing) dispatcher.settle(now());
  }
  // Parity. Of the upstreams of a model that are compared, one is the reference, for as long as the process lives: the
  // first of the file whose fingerprint is known when all are, or when the election's time is over. Others serve when
  // they do not differ from it.
  bool needs_comparison(size_t upstream) const;
  void saw(size_t upstream, Fingerprint fingerprint);
  void elect(size_t model, bool time_is_over);
  void judge_parity(size_t model);
  // Sends it requests, or none, by what was found of it.
  void place(size_t upstream);

  // Runs the coroutine that `body` returns to its end; the log tells when it has to be begun again.
  template <class Body>
  void run_until_done(const Body& body) {
    spawn_until_done(*io, body, [this](const Error& error) { if_memory_allows([&] { log.failure(error); }); });
  }
  // For people: nothing else depends on it, and where there is no memory for it it is left out. The first names an
  // upstream; `parts` are written one behind the other.
  void note(size_t upstream, std::initializer_list<std::string_view> parts);
  void note(std::initializer_list<std::string_view> parts);
  // Why a request failed there: once, until another reason or a success.
  void note_failure(size_t upstream, const Error& error);

  const GatewayConfig config;
  const std::string id;                   // of this process, for the Via field: who meets it goes in circles
  const std::vector<std::string> models;  // the first is "default"
  std::vector<Upstream> upstreams;
  std::vector<std::optional<size_t>> references;  // of each model: an upstream
  Dispatcher dispatcher;
  std::vector<std::shared_ptr<net::HttpPeer>> peers;           // of each instance; null while it is nowhere
  std::vector<std::string> not_up;                             // of each instance: why the last probe failed
  std::vector<std::shared_ptr<net::HttpPeer>> being_prepared;  // of each instance: what is being warmed and compared
  std::vector<bool> metrics_count_drafts;                      // of each instance
  Metrics metrics;
  server::AccessLog log;
  std::set<Unanswered*> unanswered;
  net::HttpServer* http = nullptr;
  boost::asio::io_context* io = nullptr;
  bool draining = false, closing = false;  // no new requests; the end: nothing new at all
};

// The machine's side of the conditions in a configuration.
struct Machine {
  Platform platform;
  Accelerator accelerator;
  int64_t memory;  // bytes
};
Machine this_machine();
bool meets(const Machine& machine, const Conditions& conditions);
// The kind that this machine runs best: MLX on Metal, bounded native runtimes elsewhere.
bool favours(const Machine& machine, UpstreamKind kind);

}  // namespace martlet::gateway
