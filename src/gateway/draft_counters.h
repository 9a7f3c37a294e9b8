#pragma once

// What a runtime's /metrics say of its drafts, for those whose answers do not.

#include <optional>
#include <string_view>

namespace martlet::gateway {

struct DraftCounters {
  double drafted = 0, accepted = 0;  // tokens since the runtime started
};

// Reads Prometheus text, series of one name added up. nullopt: it counts no drafts, or more than 2^53.
std::optional<DraftCounters> read_draft_counters(std::string_view metrics);

}  // namespace martlet::gateway
