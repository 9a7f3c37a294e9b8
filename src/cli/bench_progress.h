#pragma once

// What `bench serve` says while it runs, on stderr: on a terminal one line that is redrawn, elsewhere a line a turn.

#include <chrono>
#include <string>
#include <vector>

#include "bench/recorder.h"
#include "bench/schedule.h"

namespace martlet::cli {

// "sweep 8", "dispatch 2", "single".
std::string load_name(bench::Kind kind, int concurrency, int instances);

class BenchProgress {
 public:
  BenchProgress(std::vector<bench::Turn> turns, std::vector<std::string> engines);

  void doing(const bench::Turn& turn, const char* what);
  void answered(const bench::Turn& turn);
  void measured(const bench::Run& run);
  void judging(size_t done, size_t total);
  void judged(const std::vector<bench::Run>& runs);

 private:
  using Clock = std::chrono::steady_clock;
  void show(const std::string& line);
  std::string left() const;
  double in_turn() const;  // seconds since it began

  const std::vector<bench::Turn> turns_;
  const std::vector<std::string> engines_;
  const bool terminal_;
  Clock::time_point turn_begin_ = Clock::now(), drawn_{};
  bench::TimeLeft time_left_;
  std::string doing_;
  size_t turn_ = 0;  // counted from 1
  int answers_ = 0;  // in this turn
};

}  // namespace martlet::cli
