#pragma once

// JSON with comments, as a tree that remembers the line of each value: errors of a configuration point at it.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <boost/json/value.hpp>

#include "base/error.h"

namespace martlet::gateway {

struct ConfigNode {
  using Members = std::vector<std::pair<std::string, ConfigNode>>;
  using Items = std::vector<ConfigNode>;
  int line = 0;
  std::variant<boost::json::value, Members, Items> value;  // a scalar, an object or an array

  const Members* object() const { return std::get_if<Members>(&value); }
  const Items* array() const { return std::get_if<Items>(&value); }
  const boost::json::value* scalar() const { return std::get_if<boost::json::value>(&value); }
};

// Errors: ErrorKind::usage `bad_config` with "name:line". No key twice in an object, at most 16 levels.
Result<ConfigNode> parse_config_text(std::string_view text, const std::string& name);
// Reads a file of at most 1 MiB. Errors also: ErrorKind::io `cannot_open`, `not_regular_file`.
Result<ConfigNode> read_config_file(const std::string& path);

}  // namespace martlet::gateway
