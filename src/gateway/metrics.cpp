#include "gateway/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <map>
#include <string_view>

#include "gateway/dispatcher.h"

namespace martlet::gateway {
namespace {

using prometheus::Histogram;

const Histogram::BucketBoundaries kSeconds = {0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                              1,     2.5,   5,    10,    30,   60,  300};

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

struct Metrics::Families {
  using Counters = prometheus::Family<prometheus::Counter>;
  using Gauges = prometheus::Family<prometheus::Gauge>;

  std::vector<std::string> names;
  prometheus::Registry registry;
  Counters& requests = counters("martlet_gateway_requests_total", "Answers by route and status.");
  Counters& attempts =
      counters("martlet_gateway_attempts_total", "Requests sent to upstreams, by what became of them.");
  Counters& failovers = counters("martlet_gateway_failovers_total", "Requests that went on to another instance.");
  Counters& restarts = counters("martlet_gateway_restarts_total", "Processes started again.");
  Gauges& running = gauges("martlet_gateway_upstream_running", "Requests running there.");
  Gauges& up = gauges("martlet_gateway_upstream_instances_up", "Instances that take requests.");
  Gauges& apart = gauges("martlet_gateway_upstream_apart", "1: it answers differently and gets no request.");
  Gauges& accepted = gauges("martlet_gateway_draft_acceptance", "Share of drafted tokens accepted in the window.");
  Gauges& drafting = gauges("martlet_gateway_drafting", "1: drafts are asked for.");
  prometheus::Gauge& waiting = gauges("martlet_gateway_queue", "Requests waiting for a free instance.").Add({});
  prometheus::Gauge& connections = gauges("martlet_gateway_connections", "Open client connections.").Add({});
  prometheus::Gauge& used = gauges("martlet_gateway_memory_used", "Share of memory in use.").Add({});
  prometheus::Gauge& pressure = gauges("martlet_gateway_memory_pressure", "0 normal, 1 warning, 2 critical.").Add({});
  Histogram& request_seconds =
      histograms("martlet_gateway_request_seconds", "Whole time of a request.").Add({}, kSeconds);
  Histogram& queue_seconds = histograms("martlet_gateway_queue_seconds", "Time in the queue.").Add({}, kSeconds);
  prometheus::Family<Histogram>& first_byte =
      histograms("martlet_gateway_first_byte_seconds", "From arrival to the answer's first byte, queue included.");

  // Found already: to look one up by its labels costs more than to count.
  std::map<std::pair<size_t, std::string_view>, prometheus::Counter*> attempt_counters;
  std::map<std::pair<std::string_view, int>, prometheus::Counter*> request_counters;
  std::vector<Histogram*> first_byte_histograms;

  Counters& counters(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  Gauges& gauges(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
  }
  prometheus::Family<Histogram>& histograms(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
  }
  prometheus::Labels of(size_t upstream) const { return {{"upstream", names[upstream]}}; }
};

Metrics::Metrics(std::vector<std::string> upstreams) : families_(std::make_unique<Families>()) {
  families_->names = std::move(upstreams);
  families_->first_byte_histograms.resize(families_->names.size());
}
Metrics::~Metrics() = default;

void Metrics::request(const char* route, int status, std::chrono::nanoseconds took) {
  prometheus::Counter*& counter = families_->request_counters[{route, status}];
  if (!counter) counter = &families_->requests.Add({{"route", route}, {"status", std::to_string(status)}});
  counter->Increment();
  families_->request_seconds.Observe(seconds(took));
}

void Metrics::attempt(size_t upstream, const char* outcome) {
  prometheus::Counter*& counter = families_->attempt_counters[{upstream, outcome}];
  if (!counter) counter = &families_->attempts.Add({{"upstream", families_->names[upstream]}, {"outcome", outcome}});
  counter->Increment();
}
void Metrics::failover(size_t from) {
  families_->failovers.Add(families_->of(from)).Increment();
}
void Metrics::queued(std::chrono::nanoseconds waited) {
  families_->queue_seconds.Observe(seconds(waited));
}
void Metrics::first_byte(size_t upstream, std::chrono::nanoseconds since_arrival) {
  Histogram*& histogram = families_->first_byte_histograms[upstream];
  if (!histogram) histogram = &families_->first_byte.Add(families_->of(upstream), kSeconds);
  histogram->Observe(seconds(since_arrival));
}
void Metrics::restarted(size_t upstream) {
  families_->restarts.Add(families_->of(upstream)).Increment();
}
void Metrics::acceptance(size_t upstream, double share, bool drafting) {
  if (share >= 0) families_->accepted.Add(families_->of(upstream)).Set(share);
  families_->drafting.Add(families_->of(upstream)).Set(drafting);
}
void Metrics::memory(double used, int level) {
  families_->used.Set(used);
  families_->pressure.Set(level);
}

std::string Metrics::text(const Dispatcher& dispatcher, int connections) {
  std::vector<int> running(families_->names.size()), up(families_->names.size());
  for (const Dispatcher::Instance& instance : dispatcher.instances()) {
    running[instance.upstream] += instance.running;
    up[instance.upstream] += instance.takes_requests();
  }
  for (size_t u = 0; u < running.size(); ++u) {
    families_->running.Add(families_->of(u)).Set(running[u]);
    families_->up.Add(families_->of(u)).Set(up[u]);
    families_->apart.Add(families_->of(u)).Set(dispatcher.apart(u));
  }
  families_->waiting.Set(static_cast<double>(dispatcher.waiting()));
  families_->connections.Set(connections);
  return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

}  // namespace martlet::gateway
