#include <boost/json.hpp>
#include <cstdio>
#include <limits>
#include <memory>

#include "backend/cpu/cores.h"
#include "backend/cpu/cpu_backend.h"
#include "cli/cache_type.h"
#include "cli/command.h"
#include "cli/memory_flag.h"
#include "cli/progress.h"
#include "hub/resolve.h"
#include "plan/bandwidth.h"
#include "plan/planner.h"

namespace martlet::cli {
namespace {

struct Flags {
  std::string model;
  int32_t context = 0, threads = 0;
  PlanOptions defaults;
  int32_t max_sequences = defaults.max_sequences;
  int64_t memory = 0;
  bool json = false;
};

void print_json(const Plan& plan) {
  boost::json::array parts;
  for (const PlanPart& part : plan.parts)
    parts.push_back({{"name", part.name}, {"bytes", part.bytes}, {"note", part.note}});
  const boost::json::object object = {{"parts", std::move(parts)},
                                      {"total", plan.total()},
                                      {"ceiling", plan.ceiling},
                                      {"ceiling_source", plan.ceiling_source},
                                      {"context", plan.context},
                                      {"model_context", plan.model_context},
                                      {"sequences", plan.sequences},
                                      {"cache_tokens", plan.cache_tokens},
                                      {"bytes_per_token_read", plan.bytes_per_token_read},
                                      {"bandwidth_gb_s", plan.bandwidth_gb_s},
                                      {"roofline_tokens_per_s", plan.roofline_tokens_per_s}};
  std::printf("%s\n", boost::json::serialize(object).c_str());
}

std::string bytes(int64_t count) {
  return human_bytes(static_cast<uint64_t>(count));
}

void print_table(const Plan& plan) {
  for (const PlanPart& part : plan.parts)
    std::printf("%-10s %10s   %s\n", part.name.c_str(), bytes(part.bytes).c_str(), part.note.c_str());
  std::printf("%-10s %10s   of %s (%s)\n\n", "total", bytes(plan.total()).c_str(), bytes(plan.ceiling).c_str(),
              plan.ceiling_source.c_str());
  std::printf("context    %d tokens a sequence; the model was trained for %d\n", plan.context, plan.model_context);
  std::printf("cache      %lld tokens, shared: %d full sequence%s at once, more when they are shorter\n",
              static_cast<long long>(plan.cache_tokens), plan.sequences, plan.sequences == 1 ? "" : "s");
  std::printf("speed      at most %.1f tokens/s for one stream: %s a token at %.1f GB/s measured\n",
              plan.roofline_tokens_per_s, bytes(plan.bytes_per_token_read).c_str(), plan.bandwidth_gb_s);
}

Status run(const Flags& flags) {
  MARTLET_ASSIGN(const std::string path, resolve_model(flags.model));
  MARTLET_ASSIGN(const std::shared_ptr<const ModelFile> file, ModelFile::open(path));
  MARTLET_ASSIGN(const Hyperparameters h, read_hyperparameters(*file));
  const PlanOptions options{.context = flags.context,
                            .max_sequences = flags.max_sequences,
                            .prefill_chunk = flags.defaults.prefill_chunk,
                            .cache_type = flags.defaults.cache_type};
  MARTLET_ASSIGN(
      const std::unique_ptr<Backend> backend,
      make_cpu_backend({.threads = flags.threads, .max_rows = options.prefill_chunk + options.max_sequences}));
  MARTLET_ASSIGN(Plan plan, make_plan(h, mapped_bytes(*file), bytes_read_per_token(*file), *backend,
                                      memory_ceiling(flags.memory), options));
  add_roofline(plan, measure_read_bandwidth(flags.threads > 0 ? flags.threads : cpu::usable_cores()));
  flags.json ? print_json(plan) : print_table(plan);
  return {};
}

}  // namespace

Action define_plan(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  app.add_option("model", flags->model, "A model: file, alias or hub reference; absent: the default model");
  app.add_option("--context", flags->context, "Tokens a sequence may hold; absent: what the model and memory allow")
      ->check(CLI::Range(1, std::numeric_limits<int32_t>::max()));
  app.add_option("--max-sequences", flags->max_sequences, "Requests that run at once")->check(CLI::Range(1, 4096));
  add_memory(app, flags->memory);
  add_cache_type(app, flags->defaults.cache_type);
  app.add_option("--threads", flags->threads, "Threads; absent: one for each physical core")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--json", flags->json, "Print one JSON object, for programs");
  return [flags] { return run(*flags); };
}

}  // namespace martlet::cli
