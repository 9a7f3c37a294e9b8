#pragma once

#include <cstdint>

#include <CLI/CLI.hpp>

namespace martlet::cli {

// A check for options of 64 bits: the parser itself takes "-1" for 2^64 - 1, and that for every larger number too.
CLI::Validator whole_number(uint64_t least, uint64_t most);

}  // namespace martlet::cli
