#pragma once

#include <CLI/CLI.hpp>

#include "martlet/cache_type.h"

namespace martlet::cli {

// Declares --cache-type, which fills `type`.
void add_cache_type(CLI::App& app, CacheType& type);

}  // namespace martlet::cli
