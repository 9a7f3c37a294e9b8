#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/printable.h"
#include "base/utf8.h"

namespace martlet::cli {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr size_t kBar = 24, kMaxName = 36;

std::string bar(uint64_t done, uint64_t total) {
  const size_t filled =
      total == 0 ? kBar : static_cast<size_t>(static_cast<double>(done) / static_cast<double>(total) * kBar);
  return std::string(filled, '#') + std::string(kBar - filled, '.');
}

}  // namespace

Progress::Progress(std::string name) : name_(printable(name)), terminal_(isatty(STDERR_FILENO) == 1) {
  if (name_.size() > kMaxName) name_ = "..." + utf8::replace_invalid(name_.substr(name_.size() - kMaxName + 3));
}

bool Progress::due(uint64_t done, uint64_t total) {
  if (terminal_) return done == total || Clock::now() - drawn_ >= kRedraw;
  const uint64_t tenth =
      total == 0 ? 10 : static_cast<uint64_t>(static_cast<double>(done) / static_cast<double>(total) * 10);
  if (tenth <= tenth_) return false;
  tenth_ = tenth;
  return true;
}

void Progress::show(const std::string& label, uint64_t done, uint64_t total) {
  if (label != label_) {
    label_ = label;
    start_ = Clock::now();
    first_ = done;  // what was there before does not count as speed
    tenth_ = 0;
  }
  if (!due(done, total)) return;
  drawn_ = Clock::now();
  const double seconds = std::max(1e-3, std::chrono::duration<double>(drawn_ - start_).count());
  const double rate = done > first_ ? static_cast<double>(done - first_) / seconds : 0;
  std::string line = fmt::format("{} {} [{}] {} of {}, {}/s", label_, name_, bar(done, total), human_bytes(done),
                                 human_bytes(total), human_bytes(static_cast<uint64_t>(rate)));
  if (rate > 0 && done < total)
    line += fmt::format(", {} left", human_seconds(static_cast<double>(total - done) / rate));
  // ESC [ K clears what is left of a longer line before.
  if (terminal_) line = "\r" + line + "\x1b[K";
  if (!terminal_ || done == total) line += "\n";
  std::fputs(line.c_str(), stderr);
}

std::string human_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string human_seconds(double seconds) {
  const auto whole = static_cast<uint64_t>(std::min(seconds, 359999.0) + 0.5);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace martlet::cli
