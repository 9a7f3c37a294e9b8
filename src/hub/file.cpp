#include "hub/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>

namespace martlet {
namespace {

namespace fs = std::filesystem;

Error failed(int error, const std::string& path) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    return {ErrorKind::io, "disk_full", "the disk is full", path};
  return {ErrorKind::io, "io_error", "the file cannot be written or read: check the disk and the permissions", path};
}

// Some systems refuse single transfers above 2 GiB.
constexpr size_t kMaxTransfer = 1 << 30;

class PosixFile final : public File {
 public:
  PosixFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  ~PosixFile() override { close(descriptor_); }

  uint64_t size() const override {
    struct stat status;
    return fstat(descriptor_, &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
  }

  Status read(uint64_t offset, std::span<std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t count =
          pread(descriptor_, bytes.data(), std::min(bytes.size(), kMaxTransfer), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return failed(count < 0 ? errno : EIO, path_);
      bytes = bytes.subspan(static_cast<size_t>(count));
      offset += static_cast<uint64_t>(count);
    }
    return {};
  }

  Status write(uint64_t offset, std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t count =
          pwrite(descriptor_, bytes.data(), std::min(bytes.size(), kMaxTransfer), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return failed(errno, path_);
      bytes = bytes.subspan(static_cast<size_t>(count));
      offset += static_cast<uint64_t>(count);
    }
    return {};
  }

  Status resize(uint64_t size) override {
    return ftruncate(descriptor_, static_cast<off_t>(size)) == 0 ? Status() : failed(errno, path_);
  }

  Status sync() override {
#ifdef F_FULLFSYNC
    // On macOS fsync leaves the bytes in the drive's own cache.
    if (fcntl(descriptor_, F_FULLFSYNC) == 0) return {};
#endif
    return fsync(descriptor_) == 0 ? Status() : failed(errno, path_);
  }

 private:
  int descriptor_;
  std::string path_;
};

bool still_named(int descriptor, const fs::path& path) {
  struct stat opened, named;
  return fstat(descriptor, &opened) == 0 && stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

Status sync_folder(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return failed(errno, path.string());
  const int result = fsync(descriptor);
  const int error = errno;
  close(descriptor);
  return result == 0 || error == EINVAL ? Status() : failed(error, path.string());  // EINVAL: folders need no sync here
}

class PosixFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> open(const fs::path& path) override {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (descriptor < 0) return failed(errno, path.string());
    std::unique_ptr<File> file = std::make_unique<PosixFile>(descriptor, path.string());
    // Whoever held the lock may have given the file its final name in between: then it is not ours to write.
    if ((flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) || !still_named(descriptor, path))
      return Error{ErrorKind::io, "file_busy", "another process is downloading this file", path.string()};
    return file;
  }

  Status make_folders(const fs::path& path) override {
    std::error_code error;
    fs::create_directories(path, error);
    return error ? failed(error.value(), path.string()) : Status();
  }

  Status rename(const fs::path& from, const fs::path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return failed(errno, to.string());
    return sync_folder(to.parent_path());
  }

  Status link(const fs::path& target, const fs::path& path) override {
    std::error_code error;
    if (fs::is_symlink(path, error) && fs::read_symlink(path, error) == target) return {};
    fs::path fresh = path;
    fresh += ".new";
    fs::remove(fresh, error);
    fs::create_symlink(target, fresh, error);
    if (error) return failed(error.value(), path.string());
    return rename(fresh, path);
  }

  void remove(const fs::path& path) override {
    std::error_code error;
    fs::remove(path, error);
  }

  uint64_t available(const fs::path& folder) override {
    std::error_code error;
    const fs::space_info space = fs::space(folder, error);
    return error ? std::numeric_limits<uint64_t>::max() : space.available;
  }
};

}  // namespace

FileSystem& real_file_system() {
  static PosixFileSystem system;
  return system;
}

}  // namespace martlet
