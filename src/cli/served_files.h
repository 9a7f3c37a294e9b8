#pragma once

// Model files as `serve` serves them.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/load.h"
#include "server/model_manager.h"

namespace martlet::cli {

// Buffers of that many connections, and of the bodies that are read and parsed at a time, for the plan.
int64_t server_bytes(int connections);

// A model that is loaded from a file when somebody asks for it, within `ceiling`. `note` takes what operators should
// know, from the thread that loads.
std::unique_ptr<server::ModelSource> served_file(LoadOptions options, const std::string& path, const Ceiling& ceiling,
                                                 std::function<void(const std::string&)> note);

// The .gguf files of a folder by name; of a split model its first part. Errors: ErrorKind::io, `not_a_folder`,
// `no_models`.
Result<std::vector<std::string>> model_files(const std::string& folder);

}  // namespace martlet::cli
