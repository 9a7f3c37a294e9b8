#include "hub/journal.h"

#include <charconv>
#include <span>
#include <string_view>

#include "hub/reference.h"

namespace martlet {
namespace {

constexpr uint64_t kMaxJournalBytes = 16 << 20;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string line_of(uint64_t index, const std::string& sha256) {
  return std::to_string(index) + " " + sha256 + "\n";
}

// Adds one line to `chunks`; false when it is not a line of a journal.
bool parse_line(std::string_view line, std::map<uint64_t, std::string>& chunks) {
  uint64_t index = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), index);
  if (error != std::errc() || end == line.data() + line.size() || *end != ' ') return false;
  const std::string_view digest = line.substr(static_cast<size_t>(end - line.data()) + 1);
  if (!is_hex(digest, 64)) return false;
  chunks[index] = digest;
  return true;
}

}  // namespace

Result<Journal> Journal::open(FileSystem& files, const std::filesystem::path& path, uint64_t bytes,
                              uint64_t chunk_bytes) {
  Journal journal;
  journal.header_ = "martlet-download 1 " + std::to_string(bytes) + " " + std::to_string(chunk_bytes) + "\n";
  MARTLET_ASSIGN(journal.file_, files.open(path));
  const uint64_t size = journal.file_->size();
  std::string text(size <= kMaxJournalBytes ? size : 0, '\0');
  MARTLET_TRY(journal.file_->read(0, std::as_writable_bytes(std::span(text))));
  if (!text.starts_with(journal.header_)) {
    MARTLET_TRY(journal.rewrite());
    return journal;
  }
  journal.end_ = journal.header_.size();
  const uint64_t count = (bytes + chunk_bytes - 1) / chunk_bytes;
  while (true) {
    const size_t newline = text.find('\n', journal.end_);
    if (newline == std::string::npos) break;
    if (!parse_line(std::string_view(text).substr(journal.end_, newline - journal.end_), journal.chunks_)) break;
    journal.end_ = newline + 1;
  }
  std::erase_if(journal.chunks_, [&](const auto& chunk) { return chunk.first >= count; });
  return journal;
}

Status Journal::add(uint64_t index, const std::string& sha256) {
  const std::string line = line_of(index, sha256);
  MARTLET_TRY(file_->write(end_, bytes_of(line)));
  end_ += line.size();
  chunks_[index] = sha256;
  return {};
}

Status Journal::drop(uint64_t index) {
  chunks_.erase(index);
  return rewrite();
}

Status Journal::rewrite() {
  std::string text = header_;
  for (const auto& [index, sha256] : chunks_) text += line_of(index, sha256);
  MARTLET_TRY(file_->resize(0));
  MARTLET_TRY(file_->write(0, bytes_of(text)));
  end_ = text.size();
  return {};
}

}  // namespace martlet
