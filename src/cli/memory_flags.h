#pragma once

// The flags of every command that loads a model, or says what loading it would take.

#include <string>

#include "cli/command.h"
#include "martlet/engine.h"

namespace martlet::cli {

// --context, --streams, --prompt-cache and --memory, into `options`.
void add_memory_flags(CLI::App& app, EngineOptions& options);
// --memory alone.
void add_memory_flag(CLI::App& app, int64_t& bytes);

// "6.0 GiB": memory is counted in powers of two.
std::string human_memory(int64_t bytes);
// That the context was fitted down, to what and why; empty when it was not.
std::string fit_note(const Plan& plan);

}  // namespace martlet::cli
