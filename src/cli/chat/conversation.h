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

  // Replaces the file whole, or leaves it. Errors: ErrorKind::io, "io_error", "disk_full", "not_regular_file".
  Status save(const std::string& path) const;
  // Errors: those of read_text_file; ErrorKind::io, "bad_conversation".
  static Result<Conversation> load(const std::string& path);
};

}  // namespace martlet::cli
