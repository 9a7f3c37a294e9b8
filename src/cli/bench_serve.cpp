#include "cli/bench_serve.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/cpu/cores.h"
#include "backend/cpu/isa/level.h"
#include "backend/cpu/peak.h"
#include "base/printable.h"
#include "bench/contract.h"
#include "bench/http_instance.h"
#include "bench/machine.h"
#include "bench/recorder.h"
#include "bench/report.h"
#include "bench/server_kinds.h"
#include "bench/server_target.h"
#include "bench/session.h"
#include "cli/backends.h"
#include "cli/bench_model.h"
#include "cli/bench_progress.h"
#include "cli/executable.h"
#include "cli/stop_signals.h"
#include "hub/sha256.h"
#include "model/model.h"
#include "plan/bandwidth.h"

namespace martlet::cli {
namespace {

namespace fs = std::filesystem;
using bench::Target;
using Named = std::map<std::string, std::string>;

constexpr const char* kInProcess = "martlet-in-process";
constexpr double kBandwidthChange = 0.1;  // between the beginning and the end, beyond which a run is noisy

struct Flags {
  std::string model, out = "bench-results", backend = "cpu";
  std::vector<std::string> engines{"martlet"}, programs, models, loads;
  int rounds = 0, tokens = 0, context = 1024, threads = 0;
  bool quick = false, no_quality = false;
};

// NAME=VALUE pairs of a flag that may be given several times. Errors: ErrorKind::usage.
Result<Named> pairs(const std::vector<std::string>& texts, const char* flag) {
  Named out;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == text.npos || equals + 1 == text.size())
      return Error{ErrorKind::usage, "invalid_value", "must be ENGINE=VALUE", flag};
    out[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return out;
}

// That decoding a token reads of a file, or of a folder of safetensors, which holds the same model as `judged`. 0: not
// known.
double weight_bytes_of(const std::string& path, const ModelFile& judged) {
  std::error_code code;
  if (!fs::is_directory(path, code)) {
    const auto file = ModelFile::open(path);
    return file ? static_cast<double>(bytes_read_per_token(**file)) : 0;
  }
  // Only where the embeddings are the head too does a token read all that there is.
  if (judged.tensor("output.weight")) return 0;
  double sum = 0;
  for (const auto& entry : fs::directory_iterator(path, code)) {
    if (entry.path().extension() != ".safetensors") continue;
    const auto bytes = entry.file_size(code);
    if (code) return 0;
    sum += static_cast<double>(bytes);
  }
  return sum;
}

Result<bench::Amounts> amounts_of(const Flags& flags) {
  bench::Amounts out = flags.quick ? bench::quick_amounts() : bench::contract_amounts();
  if (flags.rounds > 0) out.rounds = flags.rounds;
  if (flags.tokens > 0) out.max_tokens = flags.tokens;
  if (flags.tokens > 0 && !flags.quick)
    return Error{ErrorKind::usage, "invalid_value", "the contract says how long answers are; only --quick takes it",
                 "--tokens"};
  if (!flags.loads.empty()) MARTLET_TRY(bench::choose_loads(out, flags.loads));
  return out;
}

// One run of the command.
class Benchmark {
 public:
  Benchmark(const Flags& flags, bench::Amounts amounts, BenchModel model)
      : flags_(flags),
        amounts_(std::move(amounts)),
        model_(std::move(model)),
        threads_(flags.threads > 0 ? flags.threads : cpu::usable_cores()),
        streams_(bench::most_at_once(amounts_)) {}

  Status run() {
    MARTLET_TRY(make_folders());
    MARTLET_TRY(make_targets());
    MARTLET_ASSIGN(bench::RunFile described, describe());
    recorder_ = std::make_unique<bench::Recorder>(std::move(described), flags_.out);
    signals_.may_drain();
    const Status measured = measure();
    note_bandwidth();
    const Status judged = measured && !flags_.no_quality && !stopped() ? judge() : Status();
    recorder_->file().interrupted = stopped() || !measured || !judged;
    MARTLET_TRY(recorder_->save());
    MARTLET_TRY(write_report());  // of what there is
    MARTLET_TRY(measured);
    MARTLET_TRY(judged);
    if (stopped()) end_by_signal();
    return {};
  }

 private:
  bool stopped() { return signals_.wait_for(std::chrono::milliseconds(0)); }

  Status make_folders() {
    std::error_code code;
    fs::create_directories(flags_.out, code);
    for (const std::string& engine : flags_.engines) {
      if (engine.find('=') != engine.npos) continue;
      fs::create_directories(files_of(engine), code);
    }
    if (code) return Error{ErrorKind::io, "cannot_write", "the folder for results cannot be made", flags_.out};
    return {};
  }
  std::string files_of(const std::string& engine) const {
    return flags_.out + "/engines/" + fs::path(engine).filename().string();
  }

  Status make_targets() {
    MARTLET_ASSIGN(const Named programs, pairs(flags_.programs, "--program"));
    MARTLET_ASSIGN(const Named models, pairs(flags_.models, "--model-of"));
    for (const std::string& engine : flags_.engines) {
      MARTLET_ASSIGN(std::unique_ptr<Target> target, make_target(engine, programs, models));
      targets_.push_back(std::move(target));
    }
    // Every option must have reached somebody.
    for (const auto& [list, flag] : {std::pair{&programs, "--program"}, std::pair{&models, "--model-of"}}) {
      for (const auto& [name, value] : *list) {
        const auto& engines = flags_.engines;
        if (std::find(engines.begin(), engines.end(), name) == engines.end())
          return Error{ErrorKind::usage, "invalid_value", "names no engine of --engines", flag};
      }
    }
    return {};
  }

  Result<std::unique_ptr<Target>> make_target(const std::string& engine, const Named& programs, const Named& models) {
    const size_t equals = engine.find('=');
    if (equals != engine.npos) {
      const std::string name = engine.substr(0, equals), url = engine.substr(equals + 1);
      MARTLET_ASSIGN(bench::Endpoint endpoint, bench::parse_endpoint(url, "--engines"));
      bench::EngineInfo info{name, "", url, 0};
      return std::unique_ptr<Target>(std::make_unique<bench::UrlTarget>(std::move(info), std::move(endpoint)));
    }
    if (engine == kInProcess) return in_process();
    const auto value = [&](const Named& from, std::string other) {
      const auto found = from.find(engine);
      return found == from.end() ? std::move(other) : found->second;
    };
    bench::ServerSettings settings{.name = engine,
                                   .program = value(programs, engine == "martlet" ? executable_path().string() : ""),
                                   .model = value(models, model_.path),
                                   .context = flags_.context,
                                   .streams = streams_,
                                   .threads = threads_,
                                   .files = fs::absolute(files_of(engine)).string()};
    MARTLET_ASSIGN(std::unique_ptr<Target> target, bench::make_server_target(settings));
    target->set_weight_bytes(weight_bytes_of(settings.model, *model_.file));
    return target;
  }

  Result<std::unique_ptr<Target>> in_process() {
    if (flags_.engines.size() > 1) {
      return Error{ErrorKind::usage, "invalid_value",
                   "engines in one table are all measured over HTTP: martlet-in-process stands alone", "--engines"};
    }
    MARTLET_TRY(make_backend({.name = flags_.backend, .threads = 1, .max_rows = 1}));  // refused now or never
    bench::EngineInfo info{kInProcess, MARTLET_VERSION, "in process, without HTTP",
                           static_cast<double>(bytes_read_per_token(*model_.file))};
    info.on_processor = flags_.backend == "cpu";
    return std::unique_ptr<Target>(
        std::make_unique<bench::EngineTarget>(std::move(info), [this]() -> Result<bench::LocalModel> {
          MARTLET_ASSIGN(
              std::unique_ptr<Engine> engine,
              answering_engine(model_, flags_.context, streams_, {.name = flags_.backend, .threads = threads_}));
          return local_model(model_, std::move(engine));
        }));
  }

  Result<bench::RunFile> describe() const {
    MARTLET_ASSIGN(const cpu::Level* const level, cpu::choose_level());
    bench::RunFile file;
    file.contract_version = bench::contract().version;
    Sha256 sha;
    sha.update(std::as_bytes(std::span(bench::contract_text())));
    file.contract_sha256 = sha.finish();
    file.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                            fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
    file.martlet_version = MARTLET_VERSION;
    file.model = fs::path(model_.path).filename().string();
    file.quick = flags_.quick;
    file.max_tokens = amounts_.max_tokens;
    file.context = flags_.context;
    file.threads = threads_;
    file.command = command_line();
    file.machine = bench::describe_machine();
    file.machine.bandwidth_gb_s = measure_read_bandwidth(threads_);
    file.machine.int8_peak_gops = cpu::measure_peak(*level, threads_);
    const MatrixValues values = matrix_values(*model_.file);
    file.matrices = {static_cast<double>(values.layers), static_cast<double>(values.head)};
    for (const std::string& prompt : amounts_.contract.prompts()) {
      MARTLET_ASSIGN(const std::vector<Token> tokens, model_.encode(prompt));
      file.prompt_tokens.push_back(static_cast<int>(tokens.size()));
    }
    for (const auto& target : targets_) file.engines.push_back(target->info());
    return file;
  }

  // What a reader types to do the same again, with folders of their own.
  std::string command_line() const {
    std::string engines;
    for (const std::string& e : flags_.engines) engines += (engines.empty() ? "" : ",") + e;
    std::string out = "martlet bench serve " +
                      (flags_.model.empty() ? "" : bench::without_folders(flags_.model) + " ") + "--engines " + engines;
    for (const std::string& p : flags_.programs) {
      std::vector<std::string> words = bench::expand_words(p, {});
      for (std::string& word : words) word = bench::without_folders(word);
      out += fmt::format(" --program '{}'", fmt::join(words, " "));
    }
    for (const std::string& m : flags_.models) out += " --model-of '" + bench::without_folders(m) + "'";
    if (flags_.backend != "cpu") out += " --backend " + flags_.backend;
    if (flags_.quick) out += " --quick";
    if (flags_.tokens > 0) out += fmt::format(" --tokens {}", flags_.tokens);
    for (const std::string& load : flags_.loads) out += " --loads " + load;
    if (flags_.no_quality) out += " --no-quality";
    return out + fmt::format(" --rounds {} --context {} --threads {}", amounts_.rounds, flags_.context, threads_);
  }

  Status measure() {
    std::vector<bool> dispatches;
    std::vector<std::string> names;
    for (const auto& target : targets_) {
      dispatches.push_back(target->starts() && target->info().name != kInProcess);
      names.push_back(target->info().name);
    }
    const std::vector<bench::Turn> turns = bench::schedule(amounts_, dispatches);
    if (turns.empty()) {
      return Error{ErrorKind::usage, "nothing_to_measure",
                   "dispatch starts several processes of an engine, which none of these can be", "--loads"};
    }
    BenchProgress progress(turns, names);
    Status kept;
    const bench::Listener listener{
        .doing = [&](const bench::Turn& turn, const char* what) { progress.doing(turn, what); },
        .answered = [&](const bench::Turn& turn, const bench::Measurement&) { progress.answered(turn); },
        .measured =
            [&](bench::Run run) {
              progress.measured(run);
              if (kept) kept = recorder_->add(std::move(run));
            },
        .stop = [&] { return stopped() || !kept; }};
    MARTLET_TRY(bench::run_session(targets_, amounts_, turns, listener));
    if (stopped()) std::fprintf(stderr, "\nstopped: what was measured is kept\n");
    return kept;
  }

  void note_bandwidth() {
    bench::RunFile& file = recorder_->file();
    bench::Machine& m = file.machine;
    if (stopped()) return;
    m.bandwidth_after_gb_s = measure_read_bandwidth(threads_);
    const double change = m.bandwidth_after_gb_s / m.bandwidth_gb_s - 1;
    if (std::abs(change) > kBandwidthChange)
      file.noise.push_back(fmt::format("the memory's bandwidth changed by {:+.0f} % meanwhile", 100 * change));
    for (const std::string& reason : bench::unsteady(file.runs)) file.noise.push_back(reason);
  }

  Status judge() {
    MARTLET_ASSIGN(const std::unique_ptr<Engine> engine, judging_engine(model_, flags_.context, threads_));
    bench::Judge judge(
        *engine, [&](const std::string& prompt, const std::string& answer) { return model_.encode(prompt, answer); });
    const std::vector<std::string> engines;
    BenchProgress progress({}, engines);
    std::vector<bench::Run>& runs = recorder_->file().runs;
    MARTLET_TRY(bench::judge_runs(
        runs, bench::contract().prompts(), judge, [&](size_t done, size_t total) { progress.judging(done, total); },
        [&] { return stopped(); }));
    if (!stopped()) progress.judged(runs);
    return {};
  }

  Status write_report() {
    if (recorder_->file().runs.empty()) return {};
    MARTLET_ASSIGN(const std::string page, bench::html_report({recorder_->file()}));
    const std::string path = fs::path(recorder_->path()).replace_extension(".html").string();
    MARTLET_TRY(bench::write_whole(path, page));
    std::printf("%s\n%s\n", printable(recorder_->path()).c_str(), printable(path).c_str());
    return {};
  }

  // As a shell expects of an interrupted program: it ends by the signal.
  [[noreturn]] static void end_by_signal() {
    std::fflush(stdout);
    ::signal(SIGINT, SIG_DFL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    ::pthread_kill(::pthread_self(), SIGINT);
    std::_Exit(130);
  }

  const Flags& flags_;
  const bench::Amounts amounts_;
  const BenchModel model_;
  const int threads_, streams_;
  StopSignals signals_;
  std::vector<std::unique_ptr<Target>> targets_;
  std::unique_ptr<bench::Recorder> recorder_;
};

Status run(const Flags& flags) {
  if (flags.backend != "cpu" && flags.engines != std::vector<std::string>{kInProcess})
    return Error{ErrorKind::usage, "invalid_value",
                 "is for martlet-in-process alone; start a server with it yourself, and name its address", "--backend"};
  MARTLET_ASSIGN(bench::Amounts amounts, amounts_of(flags));
  MARTLET_ASSIGN(BenchModel model, open_bench_model(flags.model));
  const Result<Hyperparameters> h = read_hyperparameters(*model.file);
  if (h && flags.context > h->context)
    return Error{ErrorKind::usage, "invalid_value",
                 fmt::format("the model was trained for sequences of {} tokens: ask for no more", h->context),
                 "--context"};
  return Benchmark(flags, std::move(amounts), std::move(model)).run();
}

}  // namespace

Action define_bench_serve(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  app.add_option("model", flags->model, "A model: file, alias or hub reference; absent: the default model");
  app.add_option("--engines", flags->engines,
                 "What to compare, comma separated: martlet, llama-cpp-python, mlx-lm, ollama, vllm (started and "
                 "stopped), NAME=http://host:port for a server that runs; martlet-in-process alone")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--out", flags->out, "Folder for results")->capture_default_str();
  app.add_flag("--quick", flags->quick, "Fewer and shorter requests: to try things out, not to compare");
  app.add_option("--program", flags->programs, "ENGINE=WORDS that start it; may be given several times");
  app.add_option("--model-of", flags->models, "ENGINE=PATH of the same model in the form that it reads");
  app.add_option("--loads", flags->loads,
                 "Only these, comma separated: single, sweep, dispatch, or one count of them, such as sweep:32")
      ->delimiter(',');
  app.add_option("--rounds", flags->rounds, "Turns of each engine under each load, in turn; 0: 2")
      ->check(CLI::Range(0, 100));
  app.add_option("--tokens", flags->tokens, "Longest answer of a quick run")->check(CLI::Range(2, 4096));
  app.add_option("--context", flags->context, "Longest sequence in tokens")
      ->check(CLI::Range(64, 1 << 17))
      ->capture_default_str();
  app.add_option("--backend", flags->backend, "What martlet-in-process computes with: cpu, or cuda where it was built")
      ->capture_default_str();
  app.add_option("--threads", flags->threads, "Threads of each engine that takes such a number; 0: physical cores")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--no-quality", flags->no_quality, "Do not judge the answers, which takes a while");
  return [flags] { return run(*flags); };
}

}  // namespace martlet::cli
