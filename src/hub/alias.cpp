#include "hub/alias.h"

#include "hub/paths.h"

namespace martlet {
namespace {

constexpr Alias kAliases[] = {
#define MARTLET_ALIAS(name, package, version, member, bytes, sha256) {name, package, version, member, bytes, sha256},
#include "hub/aliases.def"
#undef MARTLET_ALIAS
};

}  // namespace

std::string Alias::path() const {
  return (store_directory() / "models" / std::filesystem::path(member).filename()).string();
}

std::span<const Alias> aliases() {
  return kAliases;
}

const Alias& default_alias() {
  return kAliases[0];
}

const Alias* find_alias(std::string_view name) {
  for (const Alias& alias : kAliases) {
    if (alias.name == name) return &alias;
  }
  return nullptr;
}

}  // namespace martlet
