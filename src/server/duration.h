#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace martlet::server {

// "300", "300s", "5m", "1.5h" in seconds; a negative number means forever. Nothing for what is no duration.
std::optional<std::chrono::duration<double>> parse_duration(std::string_view text);

}  // namespace martlet::server
