#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/resident.h"
#include "cli/backends.h"
#include "cli/bench_report.h"
#include "cli/bench_runner.h"
#include "cli/bench_serve.h"
#include "cli/bench_spec.h"
#include "cli/cache_type.h"
#include "cli/command.h"
#include "cli/memory_flags.h"
#include "cli/progress.h"
#include "hub/resolve.h"
#include "plan/planner.h"

namespace martlet::cli {
namespace {

constexpr int32_t kLoadedTokens = 512;  // of the cache that loading is timed with

struct Flags {
  std::string model, backend = "cpu";
  std::vector<int32_t> prompts{512}, batches{1, 8, 32}, depths{0};
  int32_t generated = 32, repeats = 3, threads = 0, chunk = 512;
  int64_t memory = 0;
  CacheType cache_type = CacheType::f16;
  bool invariant = false, json = false;
};

using Share = std::optional<double>;  // none where the limit is not known

struct PrefillRow {
  int32_t tokens;
  Speed speed;
  Share of_peak;  // of what the machine's products can do, attention not counted
};
struct DecodeRow {
  int32_t batch, context;
  Speed speed;
  Share of_peak, of_bandwidth;
};
struct Report {
  std::string model, backend, device;
  MachineLimits limits;
  double load_ms = 0, rss_mib = 0;
  std::vector<PrefillRow> prefill;
  std::vector<DecodeRow> decode;

  double peak_gops() const { return std::max(limits.int8_gops, limits.half_gops); }
};

Share share(double used, double limit) {
  return limit > 0 ? Share(used / (limit * 1e9)) : std::nullopt;
}

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

  // The model with that many sequences, as an engine plans and opens it. Errors: those of make_plan among others.
  Result<std::unique_ptr<BenchRunner>> open(int32_t sequences, int32_t tokens) const {
    const PlanOptions options = {.context = tokens,
                                 .max_sequences = sequences,
                                 .prefill_chunk = flags.chunk,
                                 .streams = sequences,
                                 .cache_type = flags.cache_type};
    MARTLET_ASSIGN(const Plan plan, make_plan(needs, *backend, ceiling, options));
    backend->limit(step_limits(*backend, options, tokens));
    backend->spare(plan.copies);
    return BenchRunner::open(file, *backend, sequences, tokens, flags.cache_type, flags.chunk);
  }
  // Null where the plan has no room: that is left out of the report, aloud.
  Result<std::unique_ptr<BenchRunner>> open_if_it_fits(int32_t sequences, int32_t tokens) const {
    Result<std::unique_ptr<BenchRunner>> runner = open(sequences, tokens);
    if (runner || runner.error().code != "does_not_fit") return runner;
    std::fprintf(stderr, "left out: batch %d with %d tokens each: %s\n", sequences, tokens,
                 runner.error().line().c_str());
    return std::unique_ptr<BenchRunner>();
  }

  Share of_peak(const Report& report, double tokens_per_s, double logits_per_s) const {
    const double products =
        static_cast<double>(values.layers) * tokens_per_s + static_cast<double>(values.head) * logits_per_s;
    return share(2 * products, report.peak_gops());
  }
  // Every step reads the weights once, and the keys and values of every sequence.
  Share of_bandwidth(const Report& report, int32_t batch, int64_t context, double tokens_per_s) const {
    const double bytes = static_cast<double>(needs.bytes_per_token_read) + cache_bytes(batch, context);
    return share(bytes * tokens_per_s / batch, report.limits.read_gb_s);
  }

  Status prefill(Report& report) const {
    for (const int32_t tokens : flags.prompts) {
      if (tokens == 0) continue;
      MARTLET_ASSIGN(const std::unique_ptr<BenchRunner> runner, open_if_it_fits(1, tokens));
      if (!runner) continue;
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
        MARTLET_ASSIGN(const std::unique_ptr<BenchRunner> runner, open_if_it_fits(batch, depth + flags.generated));
        if (!runner) continue;
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
  const BackendOptions options = {
      .name = flags.backend,
      .threads = flags.threads,
      .max_rows = std::max(flags.chunk, *std::max_element(flags.batches.begin(), flags.batches.end())),
      .invariant = flags.invariant};
  MARTLET_ASSIGN(report.limits, measure_limits(options));
  MARTLET_ASSIGN(report.model, resolve_model(flags.model));
  const auto begin = std::chrono::steady_clock::now();
  Bench bench{.flags = flags};
  MARTLET_ASSIGN(bench.file, ModelFile::open(report.model));
  bench.values = matrix_values(*bench.file);
  MARTLET_ASSIGN(bench.backend, make_backend(options));
  MARTLET_ASSIGN(bench.needs, model_needs(*bench.file, *bench.backend));
  note_beyond(bench.needs.h.context, flags);
  bench.needs.h.context = std::numeric_limits<int32_t>::max();  // beyond what it was trained for, speed is still speed
  bench.ceiling = memory_ceiling(flags.memory, *bench.backend);
  MARTLET_TRY(bench.open(1, kLoadedTokens));
  report.load_ms = milliseconds_since(begin);
  report.backend = bench.backend->name();
  report.device = bench.backend->device();
  MARTLET_TRY(bench.prefill(report));
  MARTLET_TRY(bench.decode(report));
  report.rss_mib = static_cast<double>(resident_bytes()) / (1 << 20);
  return report;
}

boost::json::value number_or_null(Share number) {
  return number ? boost::json::value(*number) : boost::json::value(nullptr);
}
boost::json::value limit_or_null(double limit) {
  return limit > 0 ? boost::json::value(limit) : boost::json::value(nullptr);
}

void print_json(const Report& report) {
  boost::json::array prefill, decode;
  for (const PrefillRow& row : report.prefill)
    prefill.push_back({{"tokens", row.tokens},
                       {"tokens_per_s", row.speed.tokens_per_s},
                       {"stddev", row.speed.stddev},
                       {"of_peak", number_or_null(row.of_peak)}});
  for (const DecodeRow& row : report.decode)
    decode.push_back({{"batch", row.batch},
                      {"context", row.context},
                      {"tokens_per_s", row.speed.tokens_per_s},
                      {"stddev", row.speed.stddev},
                      {"of_bandwidth", number_or_null(row.of_bandwidth)},
                      {"of_peak", number_or_null(row.of_peak)}});
  const MachineLimits& limits = report.limits;
  boost::json::object object = {{"model", report.model},
                                {"backend", report.backend},
                                {"device", report.device},
                                {"isa", nullptr},
                                {"threads", nullptr},
                                {"load_ms", report.load_ms},
                                {"rss_mib", report.rss_mib},
                                {"prefill", prefill},
                                {"decode", decode},
                                {"bandwidth_gb_s", limit_or_null(limits.read_gb_s)},
                                {"int8_peak_gops", limit_or_null(limits.int8_gops)},
                                {"half_peak_gops", limit_or_null(limits.half_gops)}};
  if (!limits.isa.empty()) object["isa"] = limits.isa;
  if (limits.threads > 0) object["threads"] = limits.threads;
  std::printf("%s\n", boost::json::serialize(object).c_str());
}

std::string percent(Share of) {
  return of ? fmt::format("{:.0f} %", 100 * *of) : "-";
}

void print_row(const char* work, int32_t batch, int32_t tokens, const Speed& speed, const std::string& bandwidth,
               Share of_peak) {
  std::printf("%-8s %6d %8d %12.1f %8.1f %10s %11s\n", work, batch, tokens, speed.tokens_per_s, speed.stddev,
              bandwidth.c_str(), percent(of_peak).c_str());
}

void print_table(const Report& report) {
  std::printf("%s\n%s, %s; loaded in %.0f ms; %.0f MiB resident\n", printable(report.model).c_str(),
              report.backend.c_str(), report.device.c_str(), report.load_ms, report.rss_mib);
  const MachineLimits& limits = report.limits;
  const char* products = limits.half_gops > 0 ? "16-bit" : "8-bit";
  if (limits.read_gb_s > 0)
    std::printf("memory reads at %.1f GB/s, %s products at %.0f GOP/s\n", limits.read_gb_s, products,
                report.peak_gops());
  std::printf("\n%-8s %6s %8s %12s %8s %10s %11s\n", "", "batch", "tokens", "tokens/s", "+-", "bandwidth",
              fmt::format("{} peak", products).c_str());
  for (const PrefillRow& row : report.prefill) print_row("prefill", 1, row.tokens, row.speed, "", row.of_peak);
  for (const DecodeRow& row : report.decode)
    print_row("decode", row.batch, row.context, row.speed, percent(row.of_bandwidth), row.of_peak);
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
  app.add_option("--chunk", flags->chunk, "Rows of a prompt that one step takes at most")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--backend", flags->backend, kBackendHelp)->capture_default_str();
  app.add_flag("--invariant", flags->invariant, kInvariantHelp);
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
