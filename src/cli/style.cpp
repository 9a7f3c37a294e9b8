#include "cli/style.h"

#include <unistd.h>

#include <cstdlib>

namespace martlet::cli {

Style style_of(int descriptor) {
  const char* no_color = std::getenv("NO_COLOR");
  if (isatty(descriptor) != 1 || (no_color && *no_color)) return {};
  return {"\x1b[1m", "\x1b[2m", "\x1b[33m", "\x1b[0m"};
}

}  // namespace martlet::cli
