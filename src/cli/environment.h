#pragma once

#include <CLI/CLI.hpp>

namespace martlet::cli {

// Every long flag of `command` may also be set by an environment variable: --max-tokens by MARTLET_MAX_TOKENS. A flag
// on the command line wins. Called once, for all commands.
void mirror_environment(CLI::App& command);

}  // namespace martlet::cli
