#include "cli/executable.h"

#ifdef __APPLE__
#include <mach-o/dyld.h>

#include <string>
#endif

namespace martlet::cli {

std::filesystem::path executable_path() {
  std::error_code error;
#ifdef __APPLE__
  uint32_t size = 0;
  _NSGetExecutablePath(nullptr, &size);
  std::string path(size, '\0');
  if (_NSGetExecutablePath(path.data(), &size) != 0) return {};
  return std::filesystem::canonical(path.c_str(), error);
#else
  return std::filesystem::canonical("/proc/self/exe", error);
#endif
}

}  // namespace martlet::cli
