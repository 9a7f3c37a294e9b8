#include "cli/live_line.h"

#include <cstdio>

#include <fmt/format.h>

#include "cli/memory_flags.h"

namespace martlet::cli {
namespace {

constexpr std::chrono::milliseconds kRedraw{1000};

}  // namespace

std::string live_text(const EngineStats& stats, const server::MemoryReport& memory, double prompt_rate,
                      double output_rate) {
  const double pages = stats.pages_total > 0 ? 100.0 / static_cast<double>(stats.pages_total) : 0;
  std::string out = fmt::format(
      "{} running, {} waiting | {:.0f} tokens/s out, {:.0f} in | cache {:.0f} % used, {:.0f} % kept | {} of {}",
      stats.running, stats.queued, output_rate, prompt_rate, static_cast<double>(stats.pages_used) * pages,
      static_cast<double>(stats.pages_cached) * pages, human_memory(memory.resident), human_memory(memory.ceiling));
  if (memory.models_served > 1) out += fmt::format(" | {} of {} models", memory.models_loaded, memory.models_served);
  if (memory.refusing) out += " | refusing new work: memory";
  return out;
}

void LiveLine::update() {
  const Clock::time_point now = Clock::now();
  if (now - drawn_ < kRedraw) return;
  const EngineStats stats = server_.stats();
  const double seconds = std::chrono::duration<double>(now - drawn_).count();
  const bool first = drawn_ == Clock::time_point{};
  const auto rate = [&](uint64_t count, uint64_t& before) {
    const double out = first || count < before ? 0 : static_cast<double>(count - before) / seconds;
    before = count;
    return out;
  };
  const double prompt = rate(stats.prompt_tokens - stats.cached_tokens, prompt_tokens_);
  const double output = rate(stats.output_tokens, output_tokens_);
  drawn_ = now;
  // ESC [ K clears what is left of a longer line before; at most one row, or redrawing would climb down the screen.
  std::fprintf(stderr, "\r%.120s\x1b[K", live_text(stats, server_.memory(), prompt, output).c_str());
}

void LiveLine::wipe() {
  std::fputs("\r\x1b[K", stderr);
}

}  // namespace martlet::cli
