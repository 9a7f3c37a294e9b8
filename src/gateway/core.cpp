#include "gateway/core.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/out_of_memory.h"
#include "net/random_hex.h"

namespace martlet::gateway {
namespace {

std::vector<Upstream> make_upstreams(const GatewayConfig& config) {
  std::vector<Upstream> out;
  for (const UpstreamConfig& upstream : config.upstreams)
    out.push_back({.config = upstream, .drafts = DraftRule(config.drafts)});
  return out;
}

std::vector<UpstreamTraits> make_traits(const GatewayConfig& config) {
  const std::vector<std::string> models = served_models(config);
  const Machine machine = this_machine();
  std::vector<UpstreamTraits> out;
  for (const UpstreamConfig& u : config.upstreams) {
    UpstreamTraits traits;
    traits.model = std::find(models.begin(), models.end(), u.serves) - models.begin();
    traits.favoured = favours(machine, u.kind);
    traits.standby = u.standby;
    traits.bounded = u.bounded;
    traits.drafts = u.drafts && u.drafts_off_field.empty();
    traits.context = u.context;
    traits.compiles = !u.warm_buckets.empty();
    traits.limit = u.concurrent;
    traits.instances = u.instances;
    traits.breaker = config.breaker;
    out.push_back(traits);
  }
  return out;
}

bool accepts_all(const UpstreamConfig& upstream) {
  const auto& accepted = upstream.accepted_differences;
  return std::find(accepted.begin(), accepted.end(), "all") != accepted.end();
}

std::vector<std::string> names(const GatewayConfig& config) {
  std::vector<std::string> out;
  for (const UpstreamConfig& upstream : config.upstreams) out.push_back(upstream.name);
  return out;
}

}  // namespace

Core::Core(GatewayConfig given, bool json_log)
    : config(std::move(given)),
      id("martlet-" + net::random_hex(8)),
      models(served_models(config)),
      upstreams(make_upstreams(config)),
      references(models.size()),
      dispatcher(make_traits(config), {config.queue, config.queue_time}),
      peers(dispatcher.instances().size()),
      not_up(peers.size()),
      being_prepared(peers.size()),
      metrics_count_drafts(peers.size(), false),
      metrics(names(config)),
      log(json_log) {
  for (size_t u = 0; u < upstreams.size(); ++u) {
    upstreams[u].alike = !needs_comparison(u);
    place(u);
  }
}

void Core::place(size_t upstream) {
  dispatcher.set_apart(upstream, !upstreams[upstream].alike || !upstreams[upstream].takes_ids.value_or(true));
}

// An upstream alone, or one that may differ as it likes, has nothing to show.
bool Core::needs_comparison(size_t upstream) const {
  const UpstreamConfig& own = upstreams[upstream].config;
  const auto same = std::count_if(upstreams.begin(), upstreams.end(),
                                  [&](const Upstream& other) { return other.config.serves == own.serves; });
  return same > 1 && !accepts_all(own);
}

void Core::elect(size_t model, bool time_is_over) {
  if (!references[model]) {
    std::optional<size_t> first;
    bool all = true;
    for (size_t u = 0; u < upstreams.size(); ++u) {
      if (dispatcher.traits(u).model != model || !needs_comparison(u)) continue;
      if (!upstreams[u].fingerprint) all = false;
      if (upstreams[u].fingerprint && !first) first = u;
    }
    if (!first || !(all || time_is_over)) return;
    references[model] = first;
  }
  judge_parity(model);
}

void Core::judge_parity(size_t model) {
  const size_t reference = *references[model];
  for (size_t u = 0; u < upstreams.size(); ++u) {
    Upstream& upstream = upstreams[u];
    if (dispatcher.traits(u).model != model || !needs_comparison(u) || !upstream.fingerprint) continue;
    std::vector<std::string> different = not_accepted(
        differences(*upstreams[reference].fingerprint, *upstream.fingerprint), upstream.config.accepted_differences);
    if (different != upstream.different) {
      std::string names;
      for (const std::string& name : different) names += " " + name;
      if (different.empty())
        note(u, {"does as the reference does"});
      else
        note(u, {"differs from ", upstreams[reference].config.name, " in", names, ": gets no request"});
    }
    upstream.different = std::move(different);
    upstream.alike = upstream.different.empty();
    place(u);
  }
  settle();
}

void Core::note(std::initializer_list<std::string_view> parts) {
  if_memory_allows([&] {
    std::string text;
    for (const std::string_view part : parts) text += part;
    log.note(text);
  });
}

void Core::note(size_t upstream, std::initializer_list<std::string_view> parts) {
  if_memory_allows([&] {
    std::string text;
    for (const std::string_view part : parts) text += part;
    note({upstreams[upstream].config.name, ": ", text});
  });
}

void Core::note_failure(size_t upstream, const Error& error) {
  const std::string told = error.code + error.text;
  if (std::exchange(upstreams[upstream].noted, told) == told) return;
  note(upstream, {"a request failed: ", error.code, ": ", error.text});
}

Machine this_machine() {
  Machine out{Platform::linux_, Accelerator::none, 0};
#ifdef __APPLE__
  out.platform = Platform::macos;
#ifdef __arm64__
  out.accelerator = Accelerator::metal;
#endif
#else
  std::error_code ec;
  if (std::filesystem::exists("/dev/nvidiactl", ec)) out.accelerator = Accelerator::cuda;
#endif
  out.memory = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  return out;
}

bool meets(const Machine& machine, const Conditions& conditions) {
  return (!conditions.platform || *conditions.platform == machine.platform) &&
         (!conditions.accelerator || *conditions.accelerator == machine.accelerator) &&
         machine.memory >= conditions.memory;
}

bool favours(const Machine& machine, UpstreamKind kind) {
  const bool mlx = kind == UpstreamKind::mlx_lm;
  return machine.accelerator == Accelerator::metal ? mlx : !mlx;
}

}  // namespace martlet::gateway
