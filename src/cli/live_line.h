#pragma once

#include <chrono>
#include <string>

#include "server/server.h"

namespace martlet::cli {

// One line on the terminal that says what a server does now, redrawn in place.
class LiveLine {
 public:
  explicit LiveLine(const server::Server& server) : server_(server) {}
  // Draws it anew when its time has come.
  void update();
  void wipe();

 private:
  using Clock = std::chrono::steady_clock;
  const server::Server& server_;
  Clock::time_point drawn_{};
  uint64_t output_tokens_ = 0, prompt_tokens_ = 0;  // at the last drawing
};

// The line's text: requests, tokens a second, cache, memory.
std::string live_text(const EngineStats& stats, const server::MemoryReport& memory, double prompt_rate,
                      double output_rate);

}  // namespace martlet::cli
