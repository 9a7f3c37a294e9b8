#pragma once

#include <filesystem>

namespace martlet::cli {

// The running program's own file, links resolved; empty when the system does not tell.
std::filesystem::path executable_path();

}  // namespace martlet::cli
