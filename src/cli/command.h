#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

#include "base/error.h"

namespace martlet::cli {

using Action = std::function<Status()>;

// A command declares its flags on `app` and returns what to do once they are parsed. State that the flags fill lives in
// the returned closure (a shared_ptr). One function per row of commands.def, one file each: run.cpp, serve.cpp ...
using Define = Action (*)(CLI::App& app);

#define MARTLET_COMMAND(name, summary) Action define_##name(CLI::App& app);
#include "cli/commands.def"
#undef MARTLET_COMMAND

int main(int argc, char** argv);

}  // namespace martlet::cli
