#pragma once

#include <span>

#include <CLI/CLI.hpp>

namespace martlet::cli {

// Every long flag of `command` and of its subcommands may also be set by an environment variable, --max-tokens by
// MARTLET_MAX_TOKENS, which only the command that runs looks at. A flag of the command line, `words`, wins: over its
// own variable, and over those of flags that it excludes. `words` must outlive the parsing.
void mirror_environment(CLI::App& command, std::span<char* const> words);

}  // namespace martlet::cli
