#pragma once

// JSON with comments, as a tree that remembers the line of each value: errors of a configuration point at it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

#include "base/error.h"

namespace martlet::gateway {

struct ConfigNode {
  enum class Kind { scalar, object, array };
  using Items = std::vector<ConfigNode>;

  int line = 0;
  Kind kind = Kind::scalar;
  std::string name;          // of a member of an object
  boost::json::value value;  // of a scalar
  Items items;               // members or elements, in their order

  const Items* object() const { return kind == Kind::object ? &items : nullptr; }
  const Items* array() const { return kind == Kind::array ? &items : nullptr; }
  const boost::json::value* scalar() const { return kind == Kind::scalar ? &value : nullptr; }
};

// Errors: ErrorKind::usage `bad_config` with "name:line". No key twice in an object, at most 16 levels.
Result<ConfigNode> parse_config_text(std::string_view text, const std::string& name);
// Reads a file of at most 1 MiB. Errors also: ErrorKind::io `cannot_open`, `not_regular_file`.
Result<ConfigNode> read_config_file(const std::string& path);

}  // namespace martlet::gateway
