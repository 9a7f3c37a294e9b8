#pragma once

#include "cli/command.h"

namespace martlet::cli {

// `martlet bench spec`: what drafting brings, by class of prompt and by controller.
Action define_bench_spec(CLI::App& app);

}  // namespace martlet::cli
