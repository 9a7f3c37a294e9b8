#pragma once

#include <cstdint>

#include <CLI/CLI.hpp>

namespace martlet::cli {

// Defines --memory: the ceiling of the plan in bytes; untouched where the flag is absent.
void add_memory(CLI::App& app, int64_t& bytes);

}  // namespace martlet::cli
