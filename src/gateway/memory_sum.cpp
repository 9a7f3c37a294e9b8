#include "gateway/memory_sum.h"

#include <fmt/format.h>

#include "plan/ceiling.h"

namespace martlet::gateway {
namespace {

std::string mib(int64_t bytes) {
  return fmt::format("{} MiB", (bytes + (1 << 20) - 1) >> 20);
}

}  // namespace

Status check_memory_sum(const GatewayConfig& config, const std::vector<int64_t>& peaks) {
  int64_t sum = 0;
  std::string parts;
  for (size_t u = 0; u < peaks.size(); ++u) {
    if (peaks[u] == 0) continue;
    // At most 64 instances of at most 2^50 bytes.
    sum += peaks[u] * config.upstreams[u].instances;
    parts += fmt::format("{}{} {} x {}", parts.empty() ? "" : ", ", config.upstreams[u].name,
                         config.upstreams[u].instances, mib(peaks[u]));
  }
  const Ceiling ceiling = memory_ceiling(config.memory_ceiling);
  if (sum <= ceiling.bytes) return {};
  return Error{ErrorKind::memory, "does_not_fit",
               fmt::format("the upstreams need {} ({}) and may take {}; start fewer, or raise memory_ceiling", mib(sum),
                           parts, mib(ceiling.bytes)),
               config.path};
}

}  // namespace martlet::gateway
