#include "backend/cpu/isa/level.h"

#include <cstdlib>
#include <string>

namespace martlet::cpu {

namespace {

constexpr const Level* kLevels[] = {
#define MARTLET_LEVEL(constant) &constant,
#include "backend/cpu/isa/levels.def"
#undef MARTLET_LEVEL
};

Error not_available() {
  std::string list;
  for (const Level* level : kLevels) {
    if (level->available()) list += (list.empty() ? "" : ", ") + std::string(level->name);
  }
  return {ErrorKind::usage, "unknown_isa", "no such instruction level on this processor; it has " + list,
          "MARTLET_ISA"};
}

}  // namespace

std::span<const Level* const> levels() {
  return kLevels;
}

Result<const Level*> choose_level() {
  const char* forced = std::getenv("MARTLET_ISA");
  if (forced && *forced) {
    for (const Level* level : kLevels) {
      if (level->name == forced && level->available()) return level;
    }
    return not_available();
  }
  const Level* best = kLevels[0];
  for (const Level* level : kLevels) {
    if (level->available()) best = level;
  }
  return best;
}

}  // namespace martlet::cpu
