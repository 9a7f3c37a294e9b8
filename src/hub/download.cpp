#include "hub/download.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <vector>

#include "hub/journal.h"
#include "hub/sha256.h"
#include "net/download.h"

namespace martlet {
namespace {

constexpr uint64_t kMinChunk = 1 << 20, kMaxChunk = 16 << 20, kChunksWanted = 64;
constexpr int kAttempts = 5;
constexpr size_t kReadBlock = 1 << 20;

// SHA-256 of bytes [begin, end) of a file.
Result<std::string> hash_range(File& file, uint64_t begin, uint64_t end, FunctionRef<void(uint64_t)> on_bytes) {
  Sha256 hash;
  std::vector<std::byte> block(kReadBlock);
  while (begin < end) {
    const std::span<std::byte> part(block.data(), std::min<uint64_t>(kReadBlock, end - begin));
    MARTLET_TRY(file.read(begin, part));
    hash.update(part);
    begin += part.size();
    on_bytes(part.size());
  }
  return hash.finish();
}

class Transfer {
 public:
  Transfer(const Download& what, FileSystem& files, const OnProgress& progress)
      : what_(what), files_(files), progress_(progress), chunk_(chunk_bytes(what.bytes)) {}

  Status run(const std::function<std::unique_ptr<Source>()>& connect);
  void remove_partial();

 private:
  Status open();
  Status check_space(uint64_t needed);
  Status fetch_parallel(const std::function<std::unique_ptr<Source>()>& connect);
  Status fetch_whole(Source& source);
  void work(Source& source);
  Status fetch_chunk(Source& source, uint64_t index);
  Status try_chunk(Source& source, uint64_t index);
  Status verify();
  Status drop_damaged();

  uint64_t begin(uint64_t index) const { return index * chunk_; }
  uint64_t end(uint64_t index) const { return std::min(what_.bytes, (index + 1) * chunk_); }
  Status finish_chunk(uint64_t index, const std::string& sha256);
  void count(int64_t bytes);
  void fail(Error error);
  std::optional<uint64_t> next();
  std::filesystem::path beside(const char* suffix) const { return what_.target.string() + suffix; }

  const Download& what_;
  FileSystem& files_;
  const OnProgress& progress_;
  const uint64_t chunk_;
  std::unique_ptr<File> file_;
  std::optional<Journal> journal_;

  std::mutex mutex_;  // of all below, and of the journal while threads run
  std::set<uint64_t> missing_;
  std::optional<Error> error_;
  uint64_t done_ = 0;
  std::atomic<bool> stop_{false};
};

Status Transfer::run(const std::function<std::unique_ptr<Source>()>& connect) {
  MARTLET_TRY(open());
  Status status = fetch_parallel(connect);
  if (!status && status.error().code == "range_ignored") {
    const std::unique_ptr<Source> source = connect();
    status = fetch_whole(*source);
  }
  MARTLET_TRY(std::move(status));
  MARTLET_TRY(file_->sync());
  MARTLET_TRY(verify());
  MARTLET_TRY(files_.rename(beside(".part"), what_.target));
  files_.remove(beside(".part-journal"));
  return {};
}

// Takes over what an earlier attempt left, as far as the disk still has it as it was received.
Status Transfer::open() {
  MARTLET_ASSIGN(file_, files_.open(beside(".part")));
  // Before anything is done for each chunk: a source may claim any size. What is there already needs no more room.
  MARTLET_TRY(check_space(what_.bytes - std::min(what_.bytes, file_->size())));
  MARTLET_ASSIGN(journal_, Journal::open(files_, beside(".part-journal"), what_.bytes, chunk_));
  for (uint64_t index = 0; begin(index) < what_.bytes; ++index) missing_.insert(index);
  if (file_->size() != what_.bytes) MARTLET_TRY(file_->resize(what_.bytes));
  MARTLET_TRY(drop_damaged());
  for (const auto& [index, sha256] : journal_->chunks()) {
    missing_.erase(index);
    done_ += end(index) - begin(index);
  }
  return check_space(what_.bytes - done_);
}

Status Transfer::check_space(uint64_t needed) {
  if (needed <= files_.available(what_.target.parent_path())) return {};
  return Error{ErrorKind::io, "disk_full", "the disk has too little room", what_.target.string()};
}

Status Transfer::fetch_parallel(const std::function<std::unique_ptr<Source>()>& connect) {
  std::vector<std::thread> threads;
  const auto count = std::min<uint64_t>(static_cast<uint64_t>(what_.connections), missing_.size());
  const auto fetch = [this, &connect] {
    const std::unique_ptr<Source> source = connect();
    work(*source);
  };
  try {
    while (threads.size() < count) threads.emplace_back(fetch);
  } catch (const std::system_error&) {  // the system has no more threads for us: fewer connections do it as well
    if (threads.empty()) fetch();
  }
  for (std::thread& thread : threads) thread.join();
  return error_ ? Status(std::move(*error_)) : Status();
}

void Transfer::work(Source& source) {
  while (const auto index = next()) {
    Status status = fetch_chunk(source, *index);
    if (!status) return fail(std::move(status.error()));
  }
}

std::optional<uint64_t> Transfer::next() {
  const std::lock_guard lock(mutex_);
  if (stop_ || missing_.empty()) return std::nullopt;
  const uint64_t index = *missing_.begin();
  missing_.erase(missing_.begin());
  return index;
}

Status Transfer::fetch_chunk(Source& source, uint64_t index) {
  for (int attempt = 1;; ++attempt) {
    Status status = try_chunk(source, index);
    if (status || stop_ || !is_transient(status.error())) return status;
    if (attempt == kAttempts) {
      if (status.error().code == "short_body") status.error().code = "source_changed";
      return status;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100 << attempt));
  }
}

Status Transfer::try_chunk(Source& source, uint64_t index) {
  Sha256 hash;
  uint64_t at = begin(index);
  Status status = source.read(at, end(index), [&](std::span<const std::byte> bytes) -> Status {
    if (stop_) return Error{ErrorKind::network, "cancelled", "another connection failed", ""};
    MARTLET_TRY(file_->write(at, bytes));
    hash.update(bytes);
    at += bytes.size();
    count(static_cast<int64_t>(bytes.size()));
    return {};
  });
  if (!status) {
    count(-static_cast<int64_t>(at - begin(index)));
    return status;
  }
  return finish_chunk(index, hash.finish());
}

// For servers that do not know ranges: one read of everything. It writes all chunks again, and journals them as they
// fill, so that the file can be told whole afterwards.
Status Transfer::fetch_whole(Source& source) {
  stop_ = false;
  done_ = 0;
  uint64_t at = 0;
  Sha256 hash;
  return source.read(0, what_.bytes, [&](std::span<const std::byte> bytes) -> Status {
    while (!bytes.empty()) {
      const uint64_t index = at / chunk_;
      const auto part = bytes.first(std::min<uint64_t>(bytes.size(), end(index) - at));
      MARTLET_TRY(file_->write(at, part));
      hash.update(part);
      at += part.size();
      bytes = bytes.subspan(part.size());
      count(static_cast<int64_t>(part.size()));
      if (at == end(index)) {
        MARTLET_TRY(finish_chunk(index, hash.finish()));
        hash = Sha256();
      }
    }
    return {};
  });
}

Status Transfer::finish_chunk(uint64_t index, const std::string& sha256) {
  const std::lock_guard lock(mutex_);
  return journal_->add(index, sha256);
}

void Transfer::count(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  done_ += static_cast<uint64_t>(bytes);
  progress_(Stage::downloading, done_, what_.bytes);
}

void Transfer::fail(Error error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  stop_ = true;
}

Status Transfer::verify() {
  uint64_t hashed = 0;
  MARTLET_ASSIGN(const std::string sha256, hash_range(*file_, 0, what_.bytes, [&](uint64_t bytes) {
                   progress_(Stage::verifying, hashed += bytes, what_.bytes);
                 }));
  if (sha256 == what_.sha256) return {};
  const size_t received = journal_->chunks().size();
  MARTLET_TRY(drop_damaged());
  if (journal_->chunks().size() == received) remove_partial();
  return Error{ErrorKind::network, "digest_mismatch",
               "the downloaded bytes do not have the SHA-256 that the hub names: pull again", what_.target.string()};
}

// Drops the chunks that the disk does not hold as they were received.
Status Transfer::drop_damaged() {
  const std::map<uint64_t, std::string> chunks = journal_->chunks();
  for (const auto& [index, received] : chunks) {
    MARTLET_ASSIGN(const std::string held, hash_range(*file_, begin(index), end(index), [](uint64_t) {}));
    if (held != received) MARTLET_TRY(journal_->drop(index));
  }
  return {};
}

void Transfer::remove_partial() {
  files_.remove(beside(".part"));
  files_.remove(beside(".part-journal"));
}

}  // namespace

uint64_t chunk_bytes(uint64_t file_bytes) {
  return std::clamp(file_bytes / kChunksWanted, kMinChunk, kMaxChunk);
}

Status download(const Download& what, const std::function<std::unique_ptr<Source>()>& connect, FileSystem& files,
                const OnProgress& progress) {
  Transfer transfer(what, files, progress);
  Status status = transfer.run(connect);
  if (status || status.error().kind != ErrorKind::io || status.error().code == "file_busy") return status;
  transfer.remove_partial();
  if (status.error().code == "disk_full")
    status.error().text += ": " + std::to_string(what.bytes) + " bytes are needed";
  return status;
}

}  // namespace martlet
