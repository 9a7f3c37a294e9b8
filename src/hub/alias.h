#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace martlet {

// A short name for a model of the model store; one row of aliases.def.
struct Alias {
  std::string_view name, package, version, member;
  uint64_t bytes;
  std::string_view sha256;

  // Where the model lies once it is fetched: in the folder "models" of the store, under its own file name.
  std::string path() const;
};

std::span<const Alias> aliases();
const Alias& default_alias();
const Alias* find_alias(std::string_view name);  // null when there is none

}  // namespace martlet
