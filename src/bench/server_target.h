#pragma once

// Servers as programs: started on a port of their own, waited for, stopped with all that they started.

#include <functional>
#include <memory>
#include <string>

#include "bench/target.h"

namespace martlet::bench {

struct ServerSettings {
  std::string name;     // of a row of server_kinds()
  std::string program;  // words that start it; empty: the row's
  std::string model;    // a GGUF file or a folder, as the row wants it
  int context = 0;      // tokens of the longest sequence
  int streams = 0;      // requests at once, at most
  int threads = 0;
  std::string files;  // an existing folder for logs and what else the server wants
};

// Errors: ErrorKind::usage `unknown_engine`, `wrong_model` (a file where a folder is wanted, or the other way round).
Result<std::unique_ptr<Target>> make_server_target(const ServerSettings& settings);

}  // namespace martlet::bench
