#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "cli/command.h"
#include "cli/load.h"
#include "cli/stop_signals.h"
#include "gateway/gateway.h"

namespace martlet::cli {
namespace {

constexpr double kDrainSeconds = 30;
constexpr std::chrono::milliseconds kFailureCheck{250};

struct Flags {
  std::string config;
  bool check = false;
};

LoadOptions load_options(const gateway::UpstreamConfig& upstream) {
  LoadOptions out;
  out.model = upstream.model;
  out.engine.context = upstream.context;
  out.engine.memory_ceiling = upstream.memory;
  out.engine.max_sequences = upstream.concurrent;
  return out;
}

Result<int64_t> planned_bytes(const gateway::UpstreamConfig& upstream) {
  const LoadOptions options = load_options(upstream);
  MARTLET_ASSIGN(const Plan plan, plan_model(options, memory_ceiling(options.engine.memory_ceiling)));
  return plan.total();
}

Result<std::shared_ptr<const server::ServedModel>> load_model(const gateway::UpstreamConfig& upstream) {
  MARTLET_ASSIGN(Loaded loaded, load(load_options(upstream)));
  return served(std::move(loaded));
}

Status run(const Flags& flags) {
  MARTLET_ASSIGN(gateway::GatewayConfig config, gateway::read_config(flags.config));
  const gateway::Engines engines{planned_bytes, load_model};
  if (flags.check) {
    const size_t upstreams = config.upstreams.size();
    MARTLET_TRY(gateway::Gateway::check(std::move(config), engines));
    std::printf("%s: %zu upstreams, no error\n", flags.config.c_str(), upstreams);
    return {};
  }
  StopSignals signals;
  MARTLET_ASSIGN(const std::unique_ptr<gateway::Gateway> gateway,
                 gateway::Gateway::start(std::move(config), engines, !isatty(STDERR_FILENO)));
  signals.may_drain();
  std::printf("ready: %s\n", gateway->address().c_str());
  std::fflush(stdout);
  std::optional<Error> failure;
  while (!failure && !signals.wait_for(kFailureCheck)) failure = gateway->failure();
  gateway->note(failure ? "an engine inside cannot go on: draining" : "draining");
  gateway->drain(kDrainSeconds);
  if (failure) return *failure;
  return {};
}

}  // namespace

Action define_gateway(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  app.add_option("config", flags->config, "Configuration file; docs/gateway.md describes it")->required();
  app.add_flag("--check", flags->check,
               "Check the configuration, the models that it would load and the memory of all, and end");
  return [flags] { return run(*flags); };
}

}  // namespace martlet::cli
