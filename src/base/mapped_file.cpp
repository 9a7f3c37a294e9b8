#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>

namespace martlet {

struct MappedRange {
  std::atomic<uintptr_t> begin{0}, end{0};
  std::atomic<bool> lost_page{false};
};

namespace {

// Mapped ranges, readable from a signal handler: a fixed table of atomics. An entry is claimed by its `end` and seen by
// the handler once `begin` is set, so that it never sees half an entry.
constexpr size_t kMaxRanges = 1024;
MappedRange ranges[kMaxRanges];
uintptr_t page_size = 0;  // set before the handler is installed

// Null when the table is full.
MappedRange* remember(std::span<const std::byte> bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  for (MappedRange& range : ranges) {
    uintptr_t expected = 0;
    if (range.end.compare_exchange_strong(expected, begin + bytes.size())) {
      range.lost_page.store(false);
      range.begin.store(begin);
      return &range;
    }
  }
  return nullptr;
}

void forget(MappedRange& range) {
  range.begin.store(0);
  range.end.store(0);
}

MappedRange* range_of(uintptr_t address) {
  for (MappedRange& range : ranges) {
    const uintptr_t begin = range.begin.load();
    const uintptr_t end = (range.end.load() + page_size - 1) / page_size * page_size;
    if (begin != 0 && address >= begin && address < end && range.begin.load() == begin) return &range;
  }
  return nullptr;
}

// The page behind a truncated file is gone: put a zero page in its place, so that the step in flight ends and its
// result is thrown away by whoever asks the file. The file is marked first: nobody reads zeros from one that says it is
// unchanged.
void on_bus_error(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (MappedRange* range = range_of(address)) {
    range->lost_page.store(true);
    void* page = reinterpret_cast<void*>(address / page_size * page_size);
    if (mmap(page, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) return;
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

int64_t modified_ns(const struct stat& s) {
#ifdef __APPLE__
  return s.st_mtimespec.tv_sec * 1'000'000'000LL + s.st_mtimespec.tv_nsec;
#else
  return s.st_mtim.tv_sec * 1'000'000'000LL + s.st_mtim.tv_nsec;
#endif
}

Error open_error(const std::string& path) {
  if (errno == ENOENT)
    return {ErrorKind::io, "file_not_found", "no such file; check the path or pull the model first", path};
  if (errno == EACCES)
    return {ErrorKind::io, "not_regular_file", "the file cannot be read; check its permissions", path};
  return {ErrorKind::io, "io_error", "the file cannot be opened", path};
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path;
  // O_NONBLOCK: opening a FIFO that nobody writes must not hang.
  file->descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file->descriptor_ < 0) return open_error(path);
  struct stat status;
  if (fstat(file->descriptor_, &status) != 0) return open_error(path);
  if (!S_ISREG(status.st_mode)) return Error{ErrorKind::io, "not_regular_file", "a model must be a regular file", path};
  file->identity_ = {status.st_ino, modified_ns(status)};
  if (status.st_size > 0) {
    const auto size = static_cast<size_t>(status.st_size);
    void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, file->descriptor_, 0);
    if (data == MAP_FAILED) return Error{ErrorKind::io, "io_error", "the file cannot be mapped", path};
#ifdef MADV_HUGEPAGE
    madvise(data, size, MADV_HUGEPAGE);  // a hint: what is read from disk from now on comes in large pages
#endif
    file->bytes_ = {static_cast<const std::byte*>(data), size};
    file->range_ = remember(file->bytes_);
    if (!file->range_) return Error{ErrorKind::io, "too_many_files", "too many files are mapped", path};
  }
  return std::shared_ptr<const MappedFile>(std::move(file));
}

MappedFile::~MappedFile() {
  if (range_) forget(*range_);
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (descriptor_ >= 0) close(descriptor_);
}

bool MappedFile::unchanged() const {
  if (range_ && range_->lost_page.load()) return false;
  struct stat status;
  return fstat(descriptor_, &status) == 0 && static_cast<size_t>(status.st_size) == bytes_.size() &&
         modified_ns(status) == identity_.modified_ns;
}

bool MappedFile::is_current() const {
  struct stat open, named;
  return unchanged() && fstat(descriptor_, &open) == 0 && stat(path_.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

void guard_mapped_files() {
  page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace martlet
