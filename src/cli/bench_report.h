#pragma once

#include "cli/command.h"

namespace martlet::cli {

// `martlet bench report`: what the fairness benchmark measured, as a page or as a comparison of two runs.
Action define_bench_report(CLI::App& app);

}  // namespace martlet::cli
