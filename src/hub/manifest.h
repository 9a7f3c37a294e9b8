#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace martlet {

struct ManifestFile {
  std::string path;    // in the repository; is_safe_path holds
  uint64_t bytes = 0;  // 0 when the hub did not say
  std::string sha256;  // empty when the hub did not say (the file is not stored as LFS)
};

// What the hub says about one revision of a repository.
struct Manifest {
  std::string commit;  // 40 hexadecimal digits
  std::vector<ManifestFile> files;

  std::vector<std::string> paths() const;
  const ManifestFile* find(std::string_view path) const;  // null when absent
};

// The answer of /api/models/<owner>/<repository>/revision/<revision>?blobs=true. Its names become paths, so all are
// checked before anything is written. Errors: ErrorKind::network, "bad_manifest", "invalid_digest".
Result<Manifest> parse_manifest(std::string_view json);

}  // namespace martlet
