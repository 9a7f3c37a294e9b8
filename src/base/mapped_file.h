#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"

namespace martlet {

struct MappedRange;

// A regular file mapped read-only and shared. Pointers into bytes() live as long as the object. Thread-safe.
//
// A file that shrinks while it is mapped would deliver SIGBUS on the next touch: guard_mapped_files() installs a
// handler that replaces the lost page by zeros and marks the file, so that whoever uses its bytes, and nobody else, can
// fail cleanly with `model_file_changed` instead of dying or computing on garbage.
class MappedFile {
 public:
  // Refuses what is not a regular file (directory, FIFO, device) or cannot be read: ErrorKind::io, "not_regular_file".
  // Other errors (ErrorKind::io): "file_not_found", "io_error", "too_many_files".
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }
  // Which file of its disk it was when it was mapped, and when that was last written. Restarts do not change it;
  // whoever writes to the file, or puts another in its place, does.
  struct Identity {
    uint64_t inode = 0;
    int64_t modified_ns = 0;
  };
  const Identity& identity() const { return identity_; }
  // False once a page of it was lost, and while its length or time are others than when it was mapped.
  bool unchanged() const;
  // Whether opening path() now would give this file, unchanged.
  bool is_current() const;

 private:
  MappedFile() = default;
  std::string path_;
  int descriptor_ = -1;
  std::span<const std::byte> bytes_;
  Identity identity_;
  MappedRange* range_ = nullptr;  // where the handler finds it; null without bytes
};

// Installs the SIGBUS handler, once per process.
void guard_mapped_files();

}  // namespace martlet
