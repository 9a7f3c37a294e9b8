#include "hub/cache.h"

#include <fstream>

#include "hub/paths.h"

namespace martlet {

namespace fs = std::filesystem;

CachedRepository::CachedRepository(const HubReference& reference) : root_(hub_cache_directory() / reference.folder()) {}

std::string CachedRepository::commit() const {
  std::ifstream file(root_ / "refs" / "main");
  std::string commit;
  std::getline(file, commit);
  return is_hex(commit, 40) ? commit : "";
}

std::vector<std::string> CachedRepository::files() const {
  std::vector<std::string> files;
  if (commit().empty()) return files;
  const fs::path top = snapshot();
  std::error_code ignored;  // a snapshot that cannot be read has no files
  for (fs::recursive_directory_iterator entry(top, ignored), end; entry != end; entry.increment(ignored)) {
    if (entry->is_regular_file(ignored)) files.push_back(entry->path().lexically_relative(top).generic_string());
  }
  return files;
}

}  // namespace martlet
