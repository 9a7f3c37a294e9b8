#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/function_ref.h"
#include "hub/file.h"

namespace martlet {

// One connection to a file somewhere else. Used by one thread at a time.
class Source {
 public:
  virtual ~Source() = default;
  // Hands bytes [begin, end) to `sink`, in order; an error of the sink ends the read and is returned.
  // Errors: ErrorKind::network. "range_ignored": the other side only sends whole files, which read(0, all) takes.
  // The transient ones of net/download.h are tried again; "source_changed" is not.
  virtual Status read(uint64_t begin, uint64_t end, FunctionRef<Status(std::span<const std::byte>)> sink) = 0;
};

struct Download {
  uint64_t bytes = 0;
  std::string sha256;  // of the whole file, 64 lower-case hexadecimal digits
  std::filesystem::path
      target;  // its folder exists; beside it lie ".part" and ".part-journal" while it is not complete
  int connections = 4;
};

// Bytes of `stage` done so far, of `total`. Called from several threads, one at a time.
enum class Stage { downloading, verifying };
using OnProgress = std::function<void(Stage stage, uint64_t done, uint64_t total)>;

// Chunks of a download: big enough that a request costs nothing beside it, small enough that losing one does not hurt.
uint64_t chunk_bytes(uint64_t file_bytes);

// Fetches a file in chunks over several connections, goes on where an earlier attempt ended, verifies it and only then
// gives it its name. After a network error the partial file stays, for the next attempt; after a disk error it is
// removed. When the whole does not have its digest, chunks that the disk did not keep as they were received are dropped
// and the others stay; when it kept all, the source's bytes are wrong, no chunk can be told good, and the partial file
// is removed. Errors: those of Source and File; "disk_full" says how many bytes are needed; "digest_mismatch".
Status download(const Download& what, const std::function<std::unique_ptr<Source>()>& connect, FileSystem& files,
                const OnProgress& progress);

}  // namespace martlet
