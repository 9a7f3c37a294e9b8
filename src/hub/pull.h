#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "hub/choose.h"
#include "hub/download.h"
#include "hub/reference.h"

namespace martlet {

struct PullOptions {
  std::string endpoint, token;  // as hub_endpoint() and hub_token() give them
  int connections = 4;
  FileSystem* files = nullptr;  // null: the real one
  // Called when a file begins; the callback that it returns then hears of the file's progress.
  std::function<OnProgress(const std::string& name)> on_file;
  // Called with the choices when the reference fits several models ("ambiguous_file").
  std::function<void(const std::vector<ModelFiles>&)> on_choices;
};

// Brings a model from the hub into the hub's cache: looks everything up and checks it before anything is written, then
// downloads what is not there yet. Returns the path of its (first) file.
// Errors: those of net/download.h, manifest.h, choose.h, remote_file.h and download.h.
Result<std::filesystem::path> pull(const HubReference& reference, const PullOptions& options);

}  // namespace martlet
