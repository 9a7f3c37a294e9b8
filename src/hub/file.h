#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "base/error.h"

namespace martlet {

// What a download does to a disk, behind an interface so that tests can make the nth operation fail.
// Errors: ErrorKind::io, "disk_full" or "io_error".
class File {
 public:
  virtual ~File() = default;
  virtual uint64_t size() const = 0;
  virtual Status read(uint64_t offset, std::span<std::byte> bytes) = 0;  // all of them, or an error
  virtual Status write(uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual Status resize(uint64_t size) = 0;
  virtual Status sync() = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // Opens or makes a file for reading and writing, and locks it: "file_busy" when another process holds it.
  virtual Result<std::unique_ptr<File>> open(const std::filesystem::path& path) = 0;
  virtual Status make_folders(const std::filesystem::path& path) = 0;
  // Renames, and syncs the folder, so that the new name survives a power cut.
  virtual Status rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  virtual Status link(const std::filesystem::path& target,
                      const std::filesystem::path& path) = 0;           // replaces what was there
  virtual void remove(const std::filesystem::path& path) = 0;           // no error when it is not there
  virtual uint64_t available(const std::filesystem::path& folder) = 0;  // bytes; the largest number when unknown
};

FileSystem& real_file_system();

}  // namespace martlet
