#include "cli/bench_spec.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <memory>

#include <fmt/format.h>

#include "base/printable.h"
#include "bench/contract.h"
#include "bench/spec_trial.h"
#include "bench/statistics.h"
#include "chat/encode_chat.h"
#include "cli/backends.h"
#include "cli/draft_flags.h"
#include "cli/load.h"
#include "cli/progress.h"

namespace martlet::cli {
namespace {

using bench::Interval;
using bench::SpecTrial;

struct Flags {
  LoadOptions load;
  DraftFlags draft;
  std::vector<std::string> classes{"predictable", "repetitive", "surprising", "edit", "mixed"};
  std::vector<std::string> controllers{"auto",    "window",  "fixed:1", "fixed:2", "fixed:3",  "fixed:4",
                                       "fixed:5", "fixed:6", "fixed:7", "fixed:8", "fixed:12", "fixed:16"};
  int32_t tokens = 128, rounds = 3, streams = 1;
  uint64_t seed = 1;
  bool drawn = false, json = false;
};

struct PromptClass {
  const char* name;
  float temperature;
  std::vector<std::string> prompts;
};

std::vector<PromptClass> prompt_classes() {
  std::vector<PromptClass> all = {{"predictable", 0, bench::contract().predictable},
                                  {"repetitive", 0, {}},
                                  {"surprising", 1.2f, bench::contract().surprising},
                                  {"edit", 0, {}},
                                  {"mixed", 0.8f, {}}};
  const auto add = [&](std::string_view name, const char* text) {
    for (PromptClass& c : all)
      if (c.name == name) c.prompts.emplace_back(text);
  };
#define SPEC_PROMPT(name, text) add(#name, text);
#include "cli/spec_prompts.def"
#undef SPEC_PROMPT
  return all;
}

// All turns of one controller on one class.
struct Row {
  std::string prompts, controller;
  std::vector<double> speeds, ratios;  // tokens a second; against no drafting in the same round
  int64_t tokens = 0, steps = 0, drafted = 0, accepted = 0;
  bool same = true;  // texts equal to those without drafting

  void add(const SpecTrial& trial, const SpecTrial& none) {
    speeds.push_back(trial.tokens_per_s);
    ratios.push_back(trial.tokens_per_s / none.tokens_per_s);
    tokens += trial.tokens;
    steps += trial.steps;
    drafted += trial.drafted;
    accepted += trial.accepted;
    same &= trial.outputs == none.outputs;
  }
  double acceptance() const { return drafted > 0 ? static_cast<double>(accepted) / static_cast<double>(drafted) : 0; }
};

class SpecBench {
 public:
  SpecBench(const Flags& flags, const Loaded& model) : flags_(flags), model_(model) {}

  // Every controller in turn on the same prompt, none first, round after round: what drifts on the machine drifts for
  // all.
  Result<std::vector<Row>> measure(const PromptClass& prompts) const {
    std::vector<Row> rows = {{prompts.name, "off", {}, {}}};
    for (const std::string& controller : flags_.controllers) rows.push_back({prompts.name, controller, {}, {}});
    const auto count = static_cast<int32_t>(prompts.prompts.size());
    MARTLET_TRY(trial(prompts, 0, "off"));  // untimed: brings pages and caches in
    for (int32_t turn = 0; turn < flags_.rounds * count; ++turn) {
      MARTLET_ASSIGN(const SpecTrial none, trial(prompts, turn, "off"));
      rows[0].add(none, none);
      for (size_t r = 1; r < rows.size(); ++r) {
        MARTLET_ASSIGN(const SpecTrial with, trial(prompts, turn, rows[r].controller));
        rows[r].add(with, none);
      }
      if (!flags_.json) std::fprintf(stderr, "%s: %d of %d\n", prompts.name, turn + 1, flags_.rounds * count);
    }
    return rows;
  }

 private:
  Result<SpecTrial> trial(const PromptClass& prompts, int32_t turn, const std::string& controller) const {
    std::vector<Request> requests;
    for (int32_t s = 0; s < flags_.streams; ++s) {
      Request& request = requests.emplace_back();
      const auto number = static_cast<size_t>(turn + s);
      MARTLET_ASSIGN(request.prompt, encode(prompts.prompts[number % prompts.prompts.size()]));
      request.sampling.temperature = prompts.temperature;
      if (!flags_.drawn) request.sampling.seed = flags_.seed + number;
      request.max_tokens = flags_.tokens;
      MARTLET_ASSIGN(request.speculation, parse_speculation(controller));
    }
    return bench::run_trial(*model_.engine, requests);
  }

  Result<std::vector<Token>> encode(const std::string& prompt) const {
    if (model_.chat_template)
      return encode_chat(
          **model_.chat_template, *model_.tokenizer,
          {{"messages", boost::json::array{{{"role", "user"}, {"content", prompt}}}}, {"add_generation_prompt", true}});
    std::vector<Token> tokens;
    model_.tokenizer->encode(prompt, {}, tokens);
    return tokens;
  }

  const Flags& flags_;
  const Loaded& model_;
};

void print_table(const std::vector<Row>& rows) {
  std::printf("%-12s %-9s %9s %9s  %-13s %9s %9s %9s  %s\n", "prompts", "drafts", "tokens/s", "speed-up", "95 %",
              "drafted", "accepted", "steps", "text");
  for (const Row& row : rows) {
    const Interval speed = bench::median_interval(row.speeds), ratio = bench::median_interval(row.ratios);
    std::printf("%-12s %-9s %9.1f %9.3f  %5.3f - %5.3f %9lld %7.0f %% %9lld  %s\n", row.prompts.c_str(),
                row.controller.c_str(), speed.middle, ratio.middle, ratio.low, ratio.high,
                static_cast<long long>(row.drafted), 100 * row.acceptance(), static_cast<long long>(row.steps),
                row.same ? "same" : "other");
  }
}

boost::json::object to_json(const Row& row) {
  const Interval speed = bench::median_interval(row.speeds), ratio = bench::median_interval(row.ratios);
  return {{"prompts", row.prompts},
          {"controller", row.controller},
          {"tokens_per_s", speed.middle},
          {"speedup", ratio.middle},
          {"speedup_low", ratio.low},
          {"speedup_high", ratio.high},
          {"turns", row.ratios.size()},
          {"tokens", row.tokens},
          {"steps", row.steps},
          {"drafted", row.drafted},
          {"accepted", row.accepted},
          {"same_text", row.same},
          {"speeds", boost::json::value_from(row.speeds)}};
}

Result<std::vector<PromptClass>> chosen_classes(const Flags& flags) {
  std::vector<PromptClass> chosen;
  for (const std::string& name : flags.classes) {
    const std::vector<PromptClass> all = prompt_classes();
    const auto found = std::find_if(all.begin(), all.end(), [&](const PromptClass& c) { return c.name == name; });
    if (found == all.end())
      return Error{ErrorKind::usage, "invalid_value", "must be predictable, repetitive, surprising, edit or mixed",
                   "--prompts"};
    chosen.push_back(*found);
  }
  return chosen;
}

Status run(Flags& flags) {
  MARTLET_ASSIGN(const std::vector<PromptClass> classes, chosen_classes(flags));
  for (const std::string& controller : flags.controllers)
    if (const auto rule = parse_speculation(controller); !rule)
      return Error{ErrorKind::usage, "invalid_value", rule.error().text, "--controllers"};
  if (flags.draft.draft.empty())
    return Error{ErrorKind::usage, "no_drafter", "say what drafts: a model, or ngram", "--draft"};
  MARTLET_TRY(apply_draft_flags(flags.draft, flags.load.engine));
  flags.load.engine.max_sequences = flags.streams;
  MARTLET_ASSIGN(const Loaded model, load(flags.load));
  if (!flags.json)
    std::printf("%s, drafts from %s, %d tokens, %d stream%s\n\n", printable(model.path).c_str(),
                printable(flags.draft.draft).c_str(), flags.tokens, flags.streams, flags.streams == 1 ? "" : "s");
  const SpecBench bench(flags, model);
  std::vector<Row> all;
  for (const PromptClass& prompts : classes) {
    MARTLET_ASSIGN(const std::vector<Row> rows, bench.measure(prompts));
    all.insert(all.end(), rows.begin(), rows.end());
  }
  if (!flags.json) return print_table(all), Status();
  boost::json::array list;
  for (const Row& row : all) list.push_back(to_json(row));
  std::printf("%s\n", boost::json::serialize(boost::json::object{{"model", model.path},
                                                                 {"draft", flags.draft.draft},
                                                                 {"tokens", flags.tokens},
                                                                 {"streams", flags.streams},
                                                                 {"rows", std::move(list)}})
                          .c_str());
  return {};
}

}  // namespace

Action define_bench_spec(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  app.add_option("model", flags->load.model, "A model: file, alias or hub reference; absent: the default model");
  app.add_option("--draft", flags->draft.draft, "What drafts: a small model of the same vocabulary, or 'ngram'");
  app.add_option("--prompts", flags->classes, "Classes of prompts: predictable, repetitive, surprising, edit, mixed")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--controllers", flags->controllers, "Controllers to compare with none: auto, window, fixed:K")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("-n,--generate", flags->tokens, "Tokens of each answer")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  app.add_option("-r,--rounds", flags->rounds, "Turns of every controller on every prompt")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--streams", flags->streams, "Answers at once")->check(CLI::Range(1, 256))->capture_default_str();
  app.add_option("--seed", flags->seed, "Of drawn answers, so that every controller writes the same text")
      ->capture_default_str();
  app.add_flag("--unseeded", flags->drawn,
               "Draw without seeds: drafts are verified by rejection sampling, texts differ");
  app.add_option("--context", flags->load.engine.context, "Tokens a sequence may have; 0: chosen")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--backend", flags->load.backend, kBackendHelp)->capture_default_str();
  app.add_flag("--invariant", flags->load.invariant, kInvariantHelp);
  app.add_option("--threads", flags->load.threads, "Threads; 0: one for each physical core")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--json", flags->json, "Print one JSON object, for programs");
  return [flags] { return run(*flags); };
}

}  // namespace martlet::cli
