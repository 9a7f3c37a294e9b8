#include "cli/memory_flag.h"

#include <limits>

#include "cli/whole_number.h"

namespace martlet::cli {

void add_memory(CLI::App& app, int64_t& bytes) {
  app.add_option("--memory", bytes, "Memory that may be used (6GiB, 800MB); absent: what cgroup and machine allow")
      ->transform(CLI::AsSizeValue(true))
      ->check(whole_number(1, std::numeric_limits<int64_t>::max()));
}

}  // namespace martlet::cli
