#include "server/metrics.h"

#include <limits>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "martlet/engine.h"

namespace martlet::server {
namespace {

using prometheus::Histogram;

const Histogram::BucketBoundaries kFirstToken = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};
const Histogram::BucketBoundaries kPerToken = {0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1};
const Histogram::BucketBoundaries kRequest = {0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300};

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

// Figures that the engine counts: read when someone asks.
struct EngineFigure {
  const char* name;
  const char* help;
  bool counter;
  double (*read)(const EngineStats&);

  prometheus::MetricType type() const {
    return counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
  }
};

constexpr EngineFigure kEngineFigures[] = {
    {"martlet_requests_running", "Sequences in the batch.", false,
     [](const EngineStats& s) { return double(s.running); }},
    {"martlet_requests_queued", "Sequences waiting.", false, [](const EngineStats& s) { return double(s.queued); }},
    {"martlet_pages_total", "Pages of the cache pool.", false,
     [](const EngineStats& s) { return double(s.pages_total); }},
    {"martlet_pages_used", "Pages of running sequences.", false,
     [](const EngineStats& s) { return double(s.pages_used); }},
    {"martlet_pages_cached", "Pages kept for later prompts.", false,
     [](const EngineStats& s) { return double(s.pages_cached); }},
    {"martlet_requests_finished_total", "Sequences ended.", true,
     [](const EngineStats& s) { return double(s.requests_finished); }},
    {"martlet_prompt_tokens_total", "Prompt tokens taken in.", true,
     [](const EngineStats& s) { return double(s.prompt_tokens); }},
    {"martlet_cached_tokens_total", "Prompt tokens taken from the prefix cache.", true,
     [](const EngineStats& s) { return double(s.cached_tokens); }},
    {"martlet_output_tokens_total", "Tokens generated.", true,
     [](const EngineStats& s) { return double(s.output_tokens); }},
    {"martlet_preemptions_total", "Sequences that gave their pages to others and are computed again.", true,
     [](const EngineStats& s) { return double(s.preemptions); }},
    {"martlet_pages_evicted_total", "Cached pages that made room for others.", true,
     [](const EngineStats& s) { return double(s.pages_evicted); }},
    {"martlet_steps_total", "Steps of the engine.", true, [](const EngineStats& s) { return double(s.steps); }},
    {"martlet_draft_failures_total", "Calls of the drafter that failed.", true,
     [](const EngineStats& s) { return double(s.speculation.failures); }},
    {"martlet_draft_seconds_total", "Time spent on drafting.", true,
     [](const EngineStats& s) { return s.speculation.draft_seconds; }},
    {"martlet_draft_saved_seconds_total", "What accepted drafts would have cost without.", true,
     [](const EngineStats& s) { return s.speculation.saved_seconds; }},
    {"martlet_draft_off_seconds_total", "Time of sequences for which their controller wanted no drafts.", true,
     [](const EngineStats& s) { return s.speculation.drafts.off_seconds; }},
    {"martlet_draft_given_back", "1 when the draft model was closed to make room.", false,
     [](const EngineStats& s) { return double(s.speculation.given_back); }},
    {"martlet_shape_compilations_total", "Kernels or graphs built for a shape; constant after start-up.", true,
     [](const EngineStats& s) { return double(s.shape_compilations); }},
};

struct MemoryFigure {
  const char* name;
  const char* help;
  double (*read)(const MemoryReport&);
};

constexpr MemoryFigure kMemoryFigures[] = {
    {"martlet_models_served", "Models that may be asked for.",
     [](const MemoryReport& m) { return double(m.models_served); }},
    {"martlet_models_loaded", "Models in memory.", [](const MemoryReport& m) { return double(m.models_loaded); }},
    {"martlet_memory_ceiling_bytes", "Memory that may be used.",
     [](const MemoryReport& m) { return double(m.ceiling); }},
    {"martlet_memory_resident_bytes", "Memory of the process, mapped weights included.",
     [](const MemoryReport& m) { return double(m.resident); }},
    {"martlet_memory_pressure", "Of the machine or its control group: 0 none, 1 some, 2 critical.",
     [](const MemoryReport& m) { return double(m.pressure); }},
    {"martlet_refusing_work", "1 while new work is refused for memory.",
     [](const MemoryReport& m) { return double(m.refusing); }},
};

prometheus::MetricFamily family_of(const char* name, const char* help, prometheus::MetricType type) {
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  return family;
}

struct EngineHistogram {
  const char* name;
  const char* help;
  martlet::Histogram EngineStats::*values;
};

constexpr EngineHistogram kEngineHistograms[] = {
    {"martlet_step_seconds", "Time of a step.", &EngineStats::step_seconds},
    {"martlet_step_rows", "Tokens that a step computes.", &EngineStats::step_rows},
    {"martlet_step_sequences", "Sequences of a step: the batch size.", &EngineStats::step_sequences},
};

prometheus::MetricFamily engine_histogram(const EngineHistogram& row, const EngineStats& stats) {
  const martlet::Histogram& values = stats.*row.values;
  prometheus::MetricFamily family = family_of(row.name, row.help, prometheus::MetricType::Histogram);
  prometheus::ClientMetric metric;
  double bound = values.first_bound;
  for (size_t i = 0; i < values.counts.size(); ++i, bound *= 2) {
    const bool last = i + 1 == values.counts.size();
    metric.histogram.sample_count += values.counts[i];
    metric.histogram.bucket.push_back(
        {metric.histogram.sample_count, last ? std::numeric_limits<double>::infinity() : bound});
  }
  metric.histogram.sample_sum = values.sum;
  family.metric.push_back(metric);
  return family;
}

void add_value(prometheus::MetricFamily& family, double value,
               std::vector<prometheus::ClientMetric::Label> labels = {}) {
  prometheus::ClientMetric metric;
  metric.label = std::move(labels);
  const bool counter = family.type == prometheus::MetricType::Counter;
  (counter ? metric.counter.value : metric.gauge.value) = value;
  family.metric.push_back(std::move(metric));
}

prometheus::MetricFamily prefix_lookups(const EngineStats& stats) {
  prometheus::MetricFamily family = family_of("martlet_prefix_lookups_total",
                                              "Prompts by why no more of them came from the cache; miss=none: all of "
                                              "it did.",
                                              prometheus::MetricType::Counter);
  for (size_t i = 0; i < kPrefixMisses; ++i)
    add_value(family, static_cast<double>(stats.prefix_lookups[i]), {{"miss", name(static_cast<PrefixMiss>(i))}});
  return family;
}

// Counters with one label, a number.
template <class Count, size_t size>
prometheus::MetricFamily numbered_family(const char* name, const char* help, const char* label, int first,
                                         const std::array<Count, size>& counts) {
  prometheus::MetricFamily family = family_of(name, help, prometheus::MetricType::Counter);
  for (size_t i = 0; i < size; ++i)
    add_value(family, static_cast<double>(counts[i]), {{label, std::to_string(first + static_cast<int>(i))}});
  return family;
}

void add_memory(std::vector<prometheus::MetricFamily>& all, const MemoryReport& memory) {
  for (const MemoryFigure& figure : kMemoryFigures)
    add_value(all.emplace_back(family_of(figure.name, figure.help, prometheus::MetricType::Gauge)),
              figure.read(memory));
  prometheus::MetricFamily& parts = all.emplace_back(family_of("martlet_memory_planned_bytes",
                                                               "What the loaded models were planned to take, by part.",
                                                               prometheus::MetricType::Gauge));
  for (const auto& [name, bytes] : memory.parts) add_value(parts, double(bytes), {{"part", name}});
}

}  // namespace

struct Metrics::Families {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& requests = prometheus::BuildCounter()
                                                          .Name("martlet_http_requests_total")
                                                          .Help("Answers by route and status.")
                                                          .Register(registry);
  prometheus::Gauge& connections =
      prometheus::BuildGauge().Name("martlet_http_connections").Help("Open connections.").Register(registry).Add({});
  Histogram& request_seconds = histogram("martlet_http_request_seconds", "Whole time of a request.", kRequest);
  Histogram& first_token = histogram("martlet_ttft_seconds", "Time to the first token.", kFirstToken);
  Histogram& between_tokens = histogram("martlet_inter_token_seconds", "Time between two tokens.", kPerToken);
  Histogram& per_token = histogram("martlet_tpot_seconds", "Mean time between the tokens of an answer.", kPerToken);

  Histogram& histogram(const char* name, const char* help, const Histogram::BucketBoundaries& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
  }
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {}
Metrics::~Metrics() = default;

void Metrics::request(const char* route, int status, std::chrono::nanoseconds took) {
  families_->requests.Add({{"route", route}, {"status", std::to_string(status)}}).Increment();
  families_->request_seconds.Observe(seconds(took));
}

void Metrics::first_token(std::chrono::nanoseconds after) {
  families_->first_token.Observe(seconds(after));
}
void Metrics::next_token(std::chrono::nanoseconds after) {
  families_->between_tokens.Observe(seconds(after));
}
void Metrics::output_token(std::chrono::nanoseconds each) {
  families_->per_token.Observe(seconds(each));
}

std::string Metrics::text(const EngineStats& engine, const MemoryReport& memory, int connections) {
  families_->connections.Set(connections);
  std::vector<prometheus::MetricFamily> all = families_->registry.Collect();
  for (const EngineFigure& figure : kEngineFigures)
    add_value(all.emplace_back(family_of(figure.name, figure.help, figure.type())), figure.read(engine));
  for (const EngineHistogram& row : kEngineHistograms) all.push_back(engine_histogram(row, engine));
  all.push_back(prefix_lookups(engine));
  const SpeculationStats& speculation = engine.speculation;
  all.push_back(numbered_family("martlet_draft_tokens_total", "Tokens drafted, by position in the draft.", "position",
                                1, speculation.drafts.drafted));
  all.push_back(numbered_family("martlet_draft_accepted_total", "Drafted tokens that the model confirmed.", "position",
                                1, speculation.drafts.accepted));
  all.push_back(numbered_family("martlet_draft_decisions_total", "Sequences in steps, by the length of their draft.",
                                "length", 0, speculation.decisions));
  all.push_back(numbered_family("martlet_draft_price_seconds_total",
                                "What the cost table says that drafts of a length cost, verification included.",
                                "length", 0, speculation.price_seconds));
  add_memory(all, memory);
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace martlet::server
