#include "cli/memory_flags.h"

#include <limits>

#include <fmt/format.h>

#include "cli/whole_number.h"

namespace martlet::cli {
namespace {

// "6" is six bytes, which nobody means.
std::string bytes_were_meant(const std::string& bytes) {
  const bool meant = bytes == "0" || bytes.size() > 6;
  return meant ? "" : "is less than a megabyte: give a unit, such as 6GiB";
}

void add_size(CLI::App& app, const char* name, int64_t& bytes, uint64_t least, const char* help) {
  app.add_option(name, bytes, help)
      ->transform(CLI::AsSizeValue(true))
      ->check(whole_number(least, std::numeric_limits<int64_t>::max()))
      ->check(CLI::Validator(bytes_were_meant, ""));
}

}  // namespace

void add_memory_flag(CLI::App& app, int64_t& bytes) {
  add_size(app, "--memory", bytes, 1, "Memory that may be used (6GiB, 800MB); absent: what cgroup and machine allow");
}

void add_memory_flags(CLI::App& app, EngineOptions& options) {
  app.add_option("--context", options.context,
                 "Longest sequence in tokens; 0: what model and memory allow, at most 8192")
      ->check(CLI::Range(0, std::numeric_limits<int32_t>::max()))
      ->capture_default_str();
  app.add_option("--streams", options.streams,
                 "Sequences of full length that must fit at once; 0: as many as memory allows, up to four")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  add_size(app, "--prompt-cache", options.prompt_cache, 0,
           "Memory kept for earlier prompts beside that of running sequences; 0: what those leave free");
  add_memory_flag(app, options.memory_ceiling);
}

std::string human_memory(int64_t bytes) {
  constexpr int64_t kMiB = 1 << 20;
  const auto value = static_cast<double>(bytes);
  return bytes < 1024 * kMiB ? fmt::format("{:.1f} MiB", value / kMiB) : fmt::format("{:.2f} GiB", value / kMiB / 1024);
}

std::string fit_note(const Plan& plan) {
  if (!plan.fitted()) return {};
  return fmt::format("the context is {} tokens instead of {}, to stay within {} ({})", plan.context,
                     plan.wanted_context, human_memory(plan.ceiling), plan.ceiling_source);
}

}  // namespace martlet::cli
