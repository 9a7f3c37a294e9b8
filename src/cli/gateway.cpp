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
  if (flags.check) {
    std::printf("%s: %zu upstreams, no error\n", flags.config.c_str(), config.upstreams.size());
    return {};
  }
  StopSignals signals;
  MARTLET_ASSIGN(const std::unique_ptr<gateway::Gateway> gateway,
                 gateway::Gateway::start(std::move(config), {planned_bytes, load_model}, !isatty(STDERR_FILENO)));
  signals.may_drain();
  std::printf("ready: %s\n", gateway->address().c_str());
  std::fflush(stdout);
  while (!signals.wait_for(std::chrono::hours(1))) continue;
  gateway->note("draining");
  gateway->drain(kDrainSeconds);
  return {};
}

}  // namespace

Action define_gateway(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  app.add_option("config", flags->config, "Configuration file; docs/gateway.md describes it")->required();
  app.add_flag("--check", flags->check, "Check the configuration and end");
  return [flags] { return run(*flags); };
}

}  // namespace martlet::cli
