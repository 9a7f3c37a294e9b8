#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cores.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/isa/level.h"
#include "backend/cpu/peak.h"
#include "base/printable.h"
#include "base/resident.h"
#include "cli/bench_report.h"
#include "cli/bench_runner.h"
#include "cli/bench_serve.h"
#include "cli/bench_spec.h"
#include "cli/cache_type.h"
#include "cli/command.h"
#include "cli/memory_flags.h"
#include "cli/progress.h"
#include "hub/resolve.h"
#include "plan/bandwidth.h"
#include "plan/planner.h"

namespace martlet::cli {
namespace {

struct Flags {
  std::string model;
  std::vector<int32_t> prompts{512}, batches{1, 8, 32}, depths{0};
  int32_t generated = 32, repeats = 3, threads = 0;
  int64_t memory = 0;
  CacheType cache_type = CacheType::f16;
  bool json = false;
};

struct PrefillRow {
  int32_t tokens;
  Speed speed;
  double of_peak;  // share of what the processor's 8-bit products can do, attention not counted
};
struct DecodeRow {
  int32_t batch, context;
  Speed speed;
  double of_peak, of_bandwidth;
};
struct Report {
  std::string model, backend, isa;
  int32_t threads = 0;
  double load_ms = 0, rss_mib = 0, bandwidth_gb_s = 0, int8_peak_gops = 0;
  std::vector<PrefillRow> prefill;
  std::vector<DecodeRow> decode;
};

struct Bench {
  const Flags& flags;
  std::shared_ptr<const ModelFile> file;
  ModelNeeds needs;
  std::unique_ptr<Backend> backend;
  Ceiling ceiling;
  MatrixValues values;

  // Of the caches of that many sequences.
  double cache_bytes(int32_t sequences, int64_t tokens) const {
    const int64_t page_tokens = backend->page_tokens(), pages = sequences * ((tokens + page_tokens - 1) / page_tokens);
    const std::optional<int64_t> page = backend->cache_page_bytes(cache_groups(needs.h, flags.cache_type, 0)[0]);
    return static_cast<double>(page.value_or(std::numeric_limits<int64_t>::max())) * static_cast<double>(pages);
  }

  // Whether the plan has room for that many sequences; what it has not is left out of the report, aloud.
  bool fits(int32_t sequences, int32_t tokens) const {
    const Result<Plan> plan = make_plan(
        needs, *backend, ceiling,
        {.context = tokens, .max_sequences = sequences, .streams = sequences, .cache_type = flags.cache_type});
    if (!plan)
      std::fprintf(stderr, "left out: batch %d with %d tokens each: %s\n", sequences, tokens,
                   plan.error().line().c_str());
    return static_cast<bool>(plan);
  }

  double of_peak(const Report& report, double tokens_per_s, double logits_per_s) const {
    const double products =
        static_cast<double>(values.layers) * tokens_per_s + static_cast<double>(values.head) * logits_per_s;
    return 2 * products / (report.int8_peak_gops * 1e9);
  }
  // Every step reads the weights once, and the keys and values of every sequence.
  double of_bandwidth(const Report& report, int32_t batch, int64_t context, double tokens_per_s) const {
    const double bytes = static_cast<double>(bytes_read_per_token(*file)) + cache_bytes(batch, context);
    return bytes * tokens_per_s / batch / (report.bandwidth_gb_s * 1e9);
  }

  Status prefill(Report& report) const {
    for (const int32_t tokens : flags.prompts) {
      if (tokens == 0 || !fits(1, tokens)) continue;
      MARTLET_ASSIGN(const std::unique_ptr<BenchRunner> runner,
                     BenchRunner::open(file, *backend, 1, tokens, flags.cache_type));
      MARTLET_TRY(runner->prefill(tokens, 1));  // untimed: brings pages and caches in
      MARTLET_ASSIGN(const Speed speed, runner->prefill(tokens, flags.repeats));
      const double prompts_per_s = speed.tokens_per_s / tokens;
      report.prefill.push_back({tokens, speed, of_peak(report, speed.tokens_per_s, prompts_per_s)});
    }
    return {};
  }

  Status decode(Report& report) const {
    if (flags.generated == 0) return {};
    for (const int32_t depth : flags.depths) {
      for (const int32_t batch : flags.batches) {
        const int32_t tokens = depth + flags.generated;
        if (!fits(batch, tokens)) continue;
        MARTLET_ASSIGN(const std::unique_ptr<BenchRunner> runner,
                       BenchRunner::open(file, *backend, batch, tokens, flags.cache_type));
        MARTLET_TRY(runner->fill_contexts(batch, depth));
        MARTLET_TRY(runner->decode(batch, depth, 1, 1));  // untimed
        MARTLET_ASSIGN(const Speed speed, runner->decode(batch, depth, flags.generated, flags.repeats));
        const double rate = speed.tokens_per_s;
        report.decode.push_back({batch, depth, speed, of_peak(report, rate, rate),
                                 of_bandwidth(report, batch, depth + flags.generated / 2, rate)});
      }
    }
    return {};
  }
};

double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

void note_beyond(int32_t context, const Flags& flags) {
  int32_t longest = *std::max_element(flags.prompts.begin(), flags.prompts.end());
  if (flags.generated > 0) {
    longest = std::max(longest, *std::max_element(flags.depths.begin(), flags.depths.end()) + flags.generated);
  }
  if (longest <= context) return;
  std::fprintf(stderr, "note: %d tokens are more than the %d that the model was trained for: only speed is measured\n",
               longest, context);
}

Result<Report> measure(const Flags& flags) {
  Report report;
  report.threads = flags.threads > 0 ? flags.threads : cpu::usable_cores();
  report.bandwidth_gb_s = measure_read_bandwidth(report.threads);
  MARTLET_ASSIGN(const std::string path, resolve_model(flags.model));
  MARTLET_ASSIGN(const cpu::Level* level, cpu::choose_level());
  report.int8_peak_gops = cpu::measure_peak(*level, report.threads);
  const auto begin = std::chrono::steady_clock::now();
  Bench bench{.flags = flags};
  MARTLET_ASSIGN(bench.file, ModelFile::open(path));
  bench.values = matrix_values(*bench.file);
  const int32_t rows = std::max(512, *std::max_element(flags.batches.begin(), flags.batches.end()));
  MARTLET_ASSIGN(bench.backend, make_cpu_backend({.threads = report.threads, .level = level, .max_rows = rows}));
  MARTLET_ASSIGN(bench.needs, model_needs(*bench.file, *bench.backend));
  note_beyond(bench.needs.h.context, flags);
  bench.needs.h.context = std::numeric_limits<int32_t>::max();  // beyond what it was trained for, speed is still speed
  bench.ceiling = memory_ceiling(flags.memory);
  MARTLET_TRY(BenchRunner::open(bench.file, *bench.backend, 1, 512, flags.cache_type));
  report.load_ms = milliseconds_since(begin);
  report.model = path;
  report.backend = bench.backend->name();
  report.isa = level->name;
  MARTLET_TRY(bench.prefill(report));
  MARTLET_TRY(bench.decode(report));
  report.rss_mib = static_cast<double>(resident_bytes()) / (1 << 20);
  return report;
}

void print_json(const Report& report) {
  boost::json::array prefill, decode;
  for (const PrefillRow& row : report.prefill)
    prefill.push_back({{"tokens", row.tokens},
                       {"tokens_per_s", row.speed.tokens_per_s},
                       {"stddev", row.speed.stddev},
                       {"of_peak", row.of_peak}});
  for (const DecodeRow& row : report.decode)
    decode.push_back({{"batch", row.batch},
                      {"context", row.context},
                      {"tokens_per_s", row.speed.tokens_per_s},
                      {"stddev", row.speed.stddev},
                      {"of_bandwidth", row.of_bandwidth},
                      {"of_peak", row.of_peak}});
  const boost::json::object object = {{"model", report.model},
                                      {"backend", report.backend},
                                      {"isa", report.isa},
                                      {"threads", report.threads},
                                      {"load_ms", report.load_ms},
                                      {"rss_mib", report.rss_mib},
                                      {"prefill", prefill},
                                      {"decode", decode},
                                      {"bandwidth_gb_s", report.bandwidth_gb_s},
                                      {"int8_peak_gops", report.int8_peak_gops}};
  std::printf("%s\n", boost::json::serialize(object).c_str());
}

void print_row(const char* work, int32_t batch, int32_t tokens, const Speed& speed, const std::string& bandwidth,
               double of_peak) {
  std::printf("%-8s %6d %8d %12.1f %8.1f %10s %9.0f %%\n", work, batch, tokens, speed.tokens_per_s, speed.stddev,
              bandwidth.c_str(), 100 * of_peak);
}

void print_table(const Report& report) {
  std::printf("%s\n%s, %s, %d thread%s; loaded in %.0f ms; %.0f MiB resident\n", printable(report.model).c_str(),
              report.backend.c_str(), report.isa.c_str(), report.threads, report.threads == 1 ? "" : "s",
              report.load_ms, report.rss_mib);
  std::printf("memory reads at %.1f GB/s, 8-bit products at %.0f GOP/s\n\n", report.bandwidth_gb_s,
              report.int8_peak_gops);
  std::printf("%-8s %6s %8s %12s %8s %10s %11s\n", "", "batch", "tokens", "tokens/s", "+-", "bandwidth", "8-bit peak");
  for (const PrefillRow& row : report.prefill) print_row("prefill", 1, row.tokens, row.speed, "", row.of_peak);
  for (const DecodeRow& row : report.decode) {
    print_row("decode", row.batch, row.context, row.speed, std::to_string(std::lround(100 * row.of_bandwidth)) + " %",
              row.of_peak);
  }
}

Status run(const Flags& flags) {
  MARTLET_ASSIGN(const Report report, measure(flags));
  flags.json ? print_json(report) : print_table(report);
  return {};
}

}  // namespace

Action define_bench(CLI::App& app) {
  CLI::App* spec = app.add_subcommand("spec", "What drafting brings, by class of prompt and by controller");
  const Action run_spec = define_bench_spec(*spec);
  CLI::App* serve = app.add_subcommand("serve", "The fairness benchmark: engines side by side under one contract");
  const Action run_serve = define_bench_serve(*serve);
  CLI::App* report =
      app.add_subcommand("report", "Reads what `bench serve` measured: a page of plots, or a comparison");
  const Action run_report = define_bench_report(*report);
  const auto flags = std::make_shared<Flags>();
  const auto list = [&](const char* name, std::vector<int32_t>& values, int32_t least, const char* help) {
    app.add_option(name, values, help)->delimiter(',')->check(CLI::Range(least, 1 << 20))->capture_default_str();
  };
  app.add_option("model", flags->model, "A model: file, alias or hub reference; absent: the default model");
  list("-p,--prompt-tokens", flags->prompts, 0, "Prompt sizes, comma separated (0: no prefill)");
  list("-b,--batch", flags->batches, 1, "Sequences that decode together");
  list("-d,--depth", flags->depths, 0, "Tokens in the cache before decoding starts");
  app.add_option("-n,--generate", flags->generated, "Tokens to generate for each sequence (0: no decode)")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("-r,--repeats", flags->repeats, "Repeats of each measurement")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_cache_type(app, flags->cache_type);
  app.add_option("--threads", flags->threads, "Threads; absent: one for each physical core")
      ->check(CLI::Range(1, 1024));
  add_memory_flag(app, flags->memory);
  app.add_flag("--json", flags->json, "Print one JSON object, for programs");
  return [=] {
    return spec->parsed() ? run_spec() : serve->parsed() ? run_serve() : report->parsed() ? run_report() : run(*flags);
  };
}

}  // namespace martlet::cli
