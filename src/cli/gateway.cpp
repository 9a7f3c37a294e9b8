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

// What is planned is loaded later, from the file that is open already.
Result<gateway::PlannedEngine> plan_upstream(const gateway::UpstreamConfig& upstream) {
  const LoadOptions options = load_options(upstream);
  MARTLET_ASSIGN(const Opened opened, open_model(options.model));
  MARTLET_ASSIGN(const Plan plan, plan_model(opened, options, memory_ceiling(options.engine.memory_ceiling)));
  const auto load_it = [opened, options]() -> Result<std::shared_ptr<const server::ServedModel>> {
    MARTLET_ASSIGN(Loaded loaded, load(opened, options));
    return served(std::move(loaded));
  };
  return gateway::PlannedEngine{plan.total(), opened.file, load_it};
}

Status run(const Flags& flags) {
  MARTLET_ASSIGN(gateway::GatewayConfig config, gateway::read_config(flags.config));
  if (flags.check) {
    const size_t upstreams = config.upstreams.size();
    MARTLET_TRY(gateway::Gateway::check(std::move(config), plan_upstream));
    std::printf("%s: %zu upstreams, no error\n", flags.config.c_str(), upstreams);
    return {};
  }
  StopSignals signals;
  MARTLET_ASSIGN(const std::unique_ptr<gateway::Gateway> gateway,
                 gateway::Gateway::start(std::move(config), plan_upstream, !isatty(STDERR_FILENO)));
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
