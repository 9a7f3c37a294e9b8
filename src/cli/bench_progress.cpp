#include "cli/bench_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/printable.h"
#include "cli/progress.h"

namespace martlet::cli {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(250);

// Requests of a turn: the warm-up once, though it may go on, and the cold ones.
double weight(const bench::Turn& turn) {
  return (turn.warmup + 1) * turn.instances + turn.measured;
}

}  // namespace

std::string load_name(bench::Kind kind, int concurrency, int instances) {
  std::string out(bench::kind_name(kind));
  if (kind == bench::Kind::sweep) out += fmt::format(" {}", concurrency);
  if (kind == bench::Kind::dispatch) out += fmt::format(" {}", instances);
  return out;
}

BenchProgress::BenchProgress(std::vector<bench::Turn> turns, std::vector<std::string> engines)
    : turns_(std::move(turns)), engines_(std::move(engines)), terminal_(isatty(STDERR_FILENO) == 1) {
  for (const bench::Turn& turn : turns_) time_left_.add(turn.target, weight(turn));
}

double BenchProgress::in_turn() const {
  return std::chrono::duration<double>(Clock::now() - turn_begin_).count();
}

void BenchProgress::show(const std::string& line) {
  const auto now = Clock::now();
  if (!terminal_ || now - drawn_ < kRedraw) return;
  drawn_ = now;
  std::fprintf(stderr, "\r%s\x1b[K", printable(line).c_str());
}

std::string BenchProgress::left() const {
  const double seconds = time_left_.seconds();
  return seconds < 0 ? "" : ", " + human_seconds(std::max(0.0, seconds - in_turn())) + " left";
}

void BenchProgress::doing(const bench::Turn& turn, const char* what) {
  if (what != std::string("measures") && what != std::string("warms up")) {
    ++turn_;
    turn_begin_ = Clock::now();
  }
  answers_ = 0;
  doing_ = fmt::format("[{}/{}] {} {}, round {}: {}", turn_, turns_.size(), engines_[turn.target],
                       load_name(turn.kind, turn.concurrency, turn.instances), turn.round + 1, what);
  drawn_ = {};
  show(doing_ + left());
}

void BenchProgress::answered(const bench::Turn&) {
  show(fmt::format("{}, {} answers{}", doing_, ++answers_, left()));
}

void BenchProgress::measured(const bench::Run& run) {
  if (turn_ > 0) {
    const bench::Turn& turn = turns_[turn_ - 1];
    time_left_.done(turn.target, weight(turn), in_turn());
    turn_begin_ = Clock::now();
  }
  const bench::Figures f = bench::figures(run.requests);
  const std::string line =
      fmt::format("[{}/{}] {} {}, round {}: {:.1f} tokens/s together, TTFT {:.0f} ms, TPOT {:.2f} ms{}{}{}", turn_,
                  turns_.size(), run.engine, load_name(run.kind, run.concurrency, run.instances), run.round + 1,
                  f.aggregate_rate, 1000 * f.ttft.p50, 1000 * f.tpot.p50,
                  f.failed > 0 ? fmt::format(", {} failed", f.failed) : "", run.noise.empty() ? "" : ", noisy", left());
  std::fprintf(stderr, "%s%s%s\n", terminal_ ? "\r" : "", printable(line).c_str(), terminal_ ? "\x1b[K" : "");
}

void BenchProgress::judging(size_t done, size_t total) {
  if (done == 0 && !terminal_) std::fprintf(stderr, "judging %zu answers\n", total);
  show(fmt::format("judging answers: {} of {}", done, total));
}

void BenchProgress::judged(const std::vector<bench::Run>& runs) {
  std::map<std::string, bench::Quality> engines;
  for (const bench::Run& run : runs) {
    if (!run.quality) continue;
    engines[run.engine].tokens += run.quality->tokens;
    engines[run.engine].good += run.quality->good;
  }
  for (const auto& [name, quality] : engines) {
    if (quality.tokens == 0) continue;
    const std::string line = fmt::format("{}: {:.1f} % of its tokens are good{}", name, 100 * quality.share(),
                                         quality.passed() ? "" : ", which is too few: it computes something else");
    std::fprintf(stderr, "%s%s%s\n", terminal_ ? "\r" : "", printable(line).c_str(), terminal_ ? "\x1b[K" : "");
  }
}

}  // namespace martlet::cli
