#include "base/control_group.h"

#include <charconv>
#include <fstream>
#include <sstream>

namespace martlet {
namespace {

namespace fs = std::filesystem;

ControlGroup walk_up(int version, const fs::path& mount, const std::string& group) {
  ControlGroup out{version, {}};
  fs::path path = mount / fs::path(group).lexically_normal().relative_path();
  for (;; path = path.parent_path()) {
    out.folders.push_back(path);
    if (path == mount || path.native().size() <= mount.native().size()) return out;
  }
}

}  // namespace

std::vector<ControlGroup> control_groups(const fs::path& root, const std::string& membership,
                                         const std::string& controller) {
  std::vector<ControlGroup> out;
  std::istringstream lines(membership);
  // Each line is id:controllers:path; version 2 has no controllers.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty()) {
      out.push_back(walk_up(2, root, group));
      out.push_back(walk_up(2, root / "unified", group));  // beside version 1
    } else if (("," + controllers + ",").find("," + controller + ",") != std::string::npos) {
      out.push_back(walk_up(1, root / controller, group));
      if (controllers != controller) out.push_back(walk_up(1, root / controllers, group));
    }
  }
  return out;
}

std::optional<int64_t> memory_limit(const fs::path& folder, int version) {
  constexpr int64_t kNoLimit = int64_t{1} << 60;  // version 1 says it by a number near 2^63
  const auto limit = read_kernel_number(folder / (version == 2 ? "memory.max" : "memory.limit_in_bytes"));
  return limit && *limit > 0 && *limit < kNoLimit ? limit : std::nullopt;
}

std::string read_kernel_file(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::optional<int64_t> read_kernel_number(const fs::path& path) {
  const std::string text = read_kernel_file(path);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> find_kernel_field(const std::string& text, std::string_view name) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string field;
    int64_t value = 0;
    if (fields >> field >> value && field == name) return value;
  }
  return std::nullopt;
}

}  // namespace martlet
