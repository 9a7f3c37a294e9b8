#pragma once

#include <string>

#include "base/error.h"

namespace martlet::cli {

// A whole text file, or standard input when `path` is "-": at most 64 MiB of valid UTF-8. Errors: ErrorKind::io,
// "file_not_found", "not_regular_file", "io_error"; ErrorKind::usage, "text_too_long", "invalid_utf8".
Result<std::string> read_text_file(const std::string& path);

}  // namespace martlet::cli
