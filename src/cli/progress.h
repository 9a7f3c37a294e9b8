#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace martlet::cli {

// Progress of one file on stderr: on a terminal a line that is redrawn, with rate and time left; elsewhere a line at
// each tenth. Not thread-safe.
class Progress {
 public:
  explicit Progress(std::string name);
  // `label`: a verb such as "downloading"; a new one starts anew.
  void show(const std::string& label, uint64_t done, uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  bool due(uint64_t done, uint64_t total);

  std::string name_, label_;
  bool terminal_;
  uint64_t first_ = 0, tenth_ = 0;
  Clock::time_point start_, drawn_;
};

// "98.4 MB", in powers of 1000.
std::string human_bytes(uint64_t bytes);
// "1:02:03" or "2:03".
std::string human_seconds(double seconds);

}  // namespace martlet::cli
