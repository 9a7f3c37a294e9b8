#pragma once

#include <string>
#include <vector>

#include <boost/json/value.hpp>

#include "base/error.h"

namespace martlet::cli {

// A chat as it is kept, saved and loaded. The file is one JSON object: {"system": TEXT, "messages": [{"role",
// "content"}]}.
struct Conversation {
  struct Message {
    std::string role, content;  // user or assistant
  };
  std::string system;  // empty: none
  std::vector<Message> messages;

  // As a chat template reads them, the system message first.
  boost::json::array to_template() const;

  // Errors: ErrorKind::io, "io_error".
  Status save(const std::string& path) const;
  // Errors: ErrorKind::io, "file_not_found", "bad_conversation".
  static Result<Conversation> load(const std::string& path);
};

}  // namespace martlet::cli
