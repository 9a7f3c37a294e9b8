#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "hub/file.h"

namespace martlet {

// The real file system, whose nth write, sync or rename (counted from 1 together) fails with `code`.
class FaultyFileSystem final : public FileSystem {
 public:
  FaultyFileSystem(int nth, std::string code) : nth_(nth), code_(std::move(code)) {}

  bool fired() const { return count_ >= nth_; }
  int count() const { return count_; }

  Result<std::unique_ptr<File>> open(const std::filesystem::path& path) override {
    MARTLET_ASSIGN(std::unique_ptr<File> file, real_file_system().open(path));
    return std::unique_ptr<File>(std::make_unique<FaultyFile>(*this, std::move(file)));
  }
  Status make_folders(const std::filesystem::path& path) override { return real_file_system().make_folders(path); }
  Status rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    MARTLET_TRY(step());
    return real_file_system().rename(from, to);
  }
  Status link(const std::filesystem::path& target, const std::filesystem::path& path) override {
    MARTLET_TRY(step());
    return real_file_system().link(target, path);
  }
  void remove(const std::filesystem::path& path) override { real_file_system().remove(path); }
  uint64_t available(const std::filesystem::path& folder) override { return real_file_system().available(folder); }

 private:
  Status step() {
    if (++count_ == nth_) return Error{ErrorKind::io, code_, "injected", ""};
    return {};
  }

  class FaultyFile final : public File {
   public:
    FaultyFile(FaultyFileSystem& system, std::unique_ptr<File> file) : system_(system), file_(std::move(file)) {}
    uint64_t size() const override { return file_->size(); }
    Status read(uint64_t offset, std::span<std::byte> bytes) override { return file_->read(offset, bytes); }
    Status write(uint64_t offset, std::span<const std::byte> bytes) override {
      MARTLET_TRY(system_.step());
      return file_->write(offset, bytes);
    }
    Status resize(uint64_t size) override {
      MARTLET_TRY(system_.step());
      return file_->resize(size);
    }
    Status sync() override {
      MARTLET_TRY(system_.step());
      return file_->sync();
    }

   private:
    FaultyFileSystem& system_;
    std::unique_ptr<File> file_;
  };

  int nth_;
  std::string code_;
  std::atomic<int> count_{0};
};

}  // namespace martlet
