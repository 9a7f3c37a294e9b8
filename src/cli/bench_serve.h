#pragma once

#include "cli/command.h"

namespace martlet::cli {

// `martlet bench serve`: the fairness benchmark.
Action define_bench_serve(CLI::App& app);

}  // namespace martlet::cli
