#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"

namespace martlet {

// A model on this machine: in the model store or in the hub's cache.
struct LocalModel {
  std::string name;  // an alias, hf:owner/repository:file, or the path of another file in the store
  std::vector<std::filesystem::path> files;  // in order; links in the hub's cache
  uint64_t bytes = 0;
  std::chrono::system_clock::time_point modified;
};

// Sorted by name. What cannot be read is left out.
std::vector<LocalModel> list_local_models();

// The models that `name` means: one, or for hf:owner/repository without a file all of that repository; none when there
// is no such model here.
std::vector<LocalModel> find_local_models(const std::string& name);

// Removes the files of a model, and the blobs behind links that no other snapshot links to; folders that this leaves
// empty go too. Errors: ErrorKind::io, "io_error".
Status remove_local_model(const LocalModel& model);

}  // namespace martlet
