#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "hub/file.h"

namespace martlet {

// What a download has so far, so that a killed one goes on where it was. A text file beside the partial one: a line
// with the size of the file and of a chunk, then "<index> <SHA-256>" for each chunk as it was received. A last line
// that was cut short does not count.
class Journal {
 public:
  // A journal of another shape, or one that does not parse, starts empty.
  static Result<Journal> open(FileSystem& files, const std::filesystem::path& path, uint64_t bytes,
                              uint64_t chunk_bytes);

  const std::map<uint64_t, std::string>& chunks() const { return chunks_; }
  Status add(uint64_t index, const std::string& sha256);
  Status drop(uint64_t index);  // rewrites the file

 private:
  Status rewrite();
  std::unique_ptr<File> file_;
  std::string header_;
  uint64_t end_ = 0;  // where the next line goes
  std::map<uint64_t, std::string> chunks_;
};

}  // namespace martlet
