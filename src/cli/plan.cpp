#include <boost/json.hpp>
#include <cstdio>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "cli/backends.h"
#include "cli/cache_type.h"
#include "cli/command.h"
#include "cli/draft_flags.h"
#include "cli/memory_flags.h"
#include "cli/served_files.h"
#include "draft/same_vocabulary.h"
#include "engine/options.h"
#include "hub/resolve.h"
#include "net/http_server.h"

namespace martlet::cli {
namespace {

constexpr int64_t kTableGiB[] = {8, 16, 24, 32, 64, 128};

struct Flags {
  std::string model, draft;
  BackendOptions backend;
  int connections = net::HttpServerOptions().max_connections;
  EngineOptions engine;
  std::vector<double> bandwidths{50, 100, 200, 400, 800};
  bool table = false, json = false;
};

struct Planned {
  ModelNeeds needs;
  std::optional<ModelNeeds> draft;
  std::unique_ptr<Backend> backend;

  PlanOptions options(const Flags& flags) const {
    PlanOptions options = plan_options_of(flags.engine);
    if (flags.connections > 0) options.server_bytes = server_bytes(flags.connections);
    options.draft = draft ? &*draft : nullptr;
    return options;
  }
};

void print_json(const Plan& plan) {
  boost::json::array parts;
  for (const PlanPart& part : plan.parts)
    parts.push_back({{"name", part.name}, {"bytes", part.bytes}, {"note", part.note}, {"on_host", part.on_host}});
  const boost::json::object object = {{"parts", std::move(parts)},
                                      {"total", plan.total()},
                                      {"ceiling", plan.ceiling},
                                      {"ceiling_source", plan.ceiling_source},
                                      {"context", plan.context},
                                      {"wanted_context", plan.wanted_context},
                                      {"model_context", plan.model_context},
                                      {"sequences", plan.sequences},
                                      {"cache_tokens", plan.cache_tokens},
                                      {"cache_bytes_per_token", plan.cache_bytes_per_token},
                                      {"bytes_per_token_read", plan.bytes_per_token_read},
                                      {"bandwidth_gb_s", plan.bandwidth_gb_s},
                                      {"roofline_tokens_per_s", plan.roofline_tokens_per_s},
                                      {"roofline_full_context_tokens_per_s", plan.roofline_at(plan.context)}};
  std::printf("%s\n", boost::json::serialize(object).c_str());
}

void print_parts(const Plan& plan, bool on_host) {
  for (const PlanPart& part : plan.parts) {
    if (part.on_host != on_host) continue;
    std::printf("%-12s %11s   %s%s\n", part.name.c_str(), human_memory(part.bytes).c_str(), part.note.c_str(),
                on_host ? ", in the machine's memory" : "");
  }
}

void print_plan(const Plan& plan) {
  print_parts(plan, false);
  std::printf("%-12s %11s   of %s (%s)\n", "total", human_memory(plan.total()).c_str(),
              human_memory(plan.ceiling).c_str(), plan.ceiling_source.c_str());
  print_parts(plan, true);
  std::printf("\n");
  std::printf("context      %d tokens a sequence; the model was trained for %d\n", plan.context, plan.model_context);
  if (plan.fitted()) std::printf("             %s\n", fit_note(plan).c_str());
  std::printf("cache        %lld tokens, shared: %d full sequence%s at once, more when they are shorter\n",
              static_cast<long long>(plan.cache_tokens), plan.sequences, plan.sequences == 1 ? "" : "s");
  if (plan.bandwidth_gb_s == 0) {
    std::printf("speed        not known: there is no room to measure how fast memory is read\n");
    return;
  }
  std::printf("speed        at most %.1f tokens/s for one stream, %.1f when its context is full:\n",
              plan.roofline_tokens_per_s, plan.roofline_at(plan.context));
  std::printf("             %s of weights and %s of cache a token at %.1f GB/s measured\n",
              human_memory(plan.bytes_per_token_read).c_str(),
              human_memory(plan.context * plan.cache_bytes_per_token).c_str(), plan.bandwidth_gb_s);
}

void print_table(const std::vector<PlanRow>& rows, const Flags& flags, const Plan& sizes) {
  std::printf("%8s %16s %16s   tokens/s at most, at GB/s\n%8s %16s %16s  ", "memory", "longest context",
              fmt::format("streams of {}", sizes.context).c_str(), "", "", "");
  for (const double bandwidth : flags.bandwidths) std::printf(" %8.0f", bandwidth);
  std::printf("\n");
  for (const PlanRow& row : rows) {
    std::printf("%5lld GB", static_cast<long long>(row.memory >> 30));
    if (row.context == 0) {
      std::printf("     does not fit\n");
      continue;
    }
    std::printf(" %16d %16lld  ", row.context, static_cast<long long>(row.streams));
    for (const double bandwidth : flags.bandwidths)
      std::printf(" %8.1f", bandwidth * 1e9 / static_cast<double>(sizes.bytes_per_token_read));
    std::printf("\n");
  }
}

void print_table_json(const std::vector<PlanRow>& rows, const Flags& flags, const Plan& sizes) {
  boost::json::array out, speeds;
  for (const PlanRow& row : rows)
    out.push_back({{"memory", row.memory}, {"context", row.context}, {"streams", row.streams}});
  for (const double bandwidth : flags.bandwidths) {
    speeds.push_back({{"bandwidth_gb_s", bandwidth},
                      {"tokens_per_s", bandwidth * 1e9 / static_cast<double>(sizes.bytes_per_token_read)}});
  }
  const boost::json::object object = {{"stream_context", sizes.context}, {"machines", out}, {"speeds", speeds}};
  std::printf("%s\n", boost::json::serialize(object).c_str());
}

// What machines of other sizes would hold: this one's memory is not looked at.
Status show_table(const Planned& planned, const Flags& flags) {
  const PlanOptions options = planned.options(flags);
  std::vector<int64_t> memories;
  for (const int64_t gib : kTableGiB) memories.push_back(gib << 30);
  MARTLET_ASSIGN(const std::vector<PlanRow> rows, plan_table(planned.needs, *planned.backend, options, memories));
  Plan sizes;
  sizes.context = options.context > 0 ? options.context : std::min(planned.needs.h.context, options.longest_context);
  sizes.bytes_per_token_read = planned.needs.bytes_per_token_read;
  flags.json ? print_table_json(rows, flags, sizes) : print_table(rows, flags, sizes);
  return {};
}

// A machine that is asked about by --memory need not be this one, so its own limits do not bind.
Ceiling ceiling_of(const Flags& flags, const Backend& backend) {
  const int64_t asked = flags.engine.memory_ceiling;
  const Ceiling here = memory_ceiling(asked, backend);
  if (asked == 0) return here;
  if (here.bytes < asked)
    std::fprintf(stderr, "note: this machine allows %s (%s); run and serve would stay within that\n",
                 human_memory(here.bytes).c_str(), here.source.c_str());
  return {asked, "--memory"};
}

Status show_plan(const Planned& planned, const Flags& flags) {
  const Ceiling ceiling = ceiling_of(flags, *planned.backend);
  MARTLET_ASSIGN(Plan plan, make_plan(planned.needs, *planned.backend, ceiling, planned.options(flags)));
  MARTLET_ASSIGN(const double read_gb_s, measure_reading(flags.backend));
  add_roofline(plan, read_gb_s);
  flags.json ? print_json(plan) : print_plan(plan);
  return {};
}

Status run(const Flags& flags) {
  MARTLET_ASSIGN(const std::string path, resolve_model(flags.model));
  MARTLET_ASSIGN(const std::shared_ptr<const ModelFile> file, ModelFile::open(path));
  Planned planned;
  BackendOptions options = flags.backend;
  options.max_rows = flags.engine.prefill_chunk + flags.engine.max_sequences;
  MARTLET_ASSIGN(planned.backend, make_backend(options));
  MARTLET_ASSIGN(planned.needs, model_needs(*file, *planned.backend));
  DraftFlags draft;
  draft.draft = flags.draft;
  EngineOptions with_draft;
  MARTLET_TRY(apply_draft_flags(draft, with_draft));
  if (with_draft.draft_model) {
    MARTLET_TRY(same_vocabulary(*file, *with_draft.draft_model));
    MARTLET_ASSIGN(planned.draft, model_needs(*with_draft.draft_model, *planned.backend));
  }
  return flags.table ? show_table(planned, flags) : show_plan(planned, flags);
}

}  // namespace

Action define_plan(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  app.add_option("model", flags->model, "A model: file, alias or hub reference; absent: the default model");
  add_memory_flags(app, flags->engine);
  add_cache_type(app, flags->engine.cache_type);
  app.add_option("--draft", flags->draft, "A model that drafts, counted with its cache; 'ngram' takes nothing");
  app.add_option("--max-sequences", flags->engine.max_sequences, "Requests that run at once")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--max-connections", flags->connections, "Open connections of a server; 0: no server, as in run")
      ->check(CLI::Range(0, 1 << 16))
      ->capture_default_str();
  app.add_option("--backend", flags->backend.name, kBackendHelp)->capture_default_str();
  app.add_flag("--invariant", flags->backend.invariant, kInvariantHelp);
  app.add_option("--threads", flags->backend.threads, "Threads; absent: one for each physical core")
      ->check(CLI::Range(1, 1024));
  CLI::Option* table =
      app.add_flag("--table", flags->table, "What machines of 8 to 128 GB hold of it, and how fast it can be there");
  app.add_option("--bandwidth", flags->bandwidths, "Memory bandwidths of the table in GB/s, comma separated")
      ->delimiter(',')
      ->needs(table)
      ->check(CLI::Range(0.1, 1e5))
      ->capture_default_str();
  app.add_flag("--json", flags->json, "Print one JSON object, for programs");
  return [flags] { return run(*flags); };
}

}  // namespace martlet::cli
