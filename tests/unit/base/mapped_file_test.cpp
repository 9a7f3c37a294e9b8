#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace martlet {
namespace {

class MappedFileTest : public testing::Test {
 protected:
  MappedFileTest() : folder_(testing::TempDir() + "martlet_mapped_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~MappedFileTest() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
    return folder_ + "/" + name;
  }

  // The error that opening `path` gives, within a second.
  static Error error_of(const std::string& path) {
    const auto begin = std::chrono::steady_clock::now();
    const auto file = MappedFile::open(path);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
    return file ? Error{ErrorKind::internal, "ok"} : file.error();
  }

  std::string folder_;
};

TEST_F(MappedFileTest, MapsAFile) {
  const std::string path = write("file", "some bytes");
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file);
  const auto bytes = (*file)->bytes();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "some bytes");
  EXPECT_EQ((*file)->path(), path);
  EXPECT_TRUE((*file)->unchanged());
}

TEST_F(MappedFileTest, AnEmptyFileHasNoBytes) {
  const auto file = MappedFile::open(write("empty", ""));
  ASSERT_TRUE(file);
  EXPECT_TRUE((*file)->bytes().empty());
  EXPECT_TRUE((*file)->unchanged());
}

TEST_F(MappedFileTest, A17_Directory) {
  const Error error = error_of(folder_);
  EXPECT_EQ(error.code, "not_regular_file");
  EXPECT_EQ(error.kind, ErrorKind::io);
}

TEST_F(MappedFileTest, A17_Fifo) {
  const std::string path = folder_ + "/fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(error_of(path).code, "not_regular_file");
}

TEST_F(MappedFileTest, A17_Device) {
  EXPECT_EQ(error_of("/dev/zero").code, "not_regular_file");
}

TEST_F(MappedFileTest, A17_NoPermission) {
  const std::string path = write("secret", "x");
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  const bool root = geteuid() == 0;  // who may read every file: step down for the attempt
  ASSERT_TRUE(!root || seteuid(65534) == 0);
  const Error error = error_of(path);
  ASSERT_TRUE(!root || seteuid(0) == 0);
  EXPECT_EQ(error.code, "not_regular_file");
}

TEST_F(MappedFileTest, NoSuchFile) {
  EXPECT_EQ(error_of(folder_ + "/absent").code, "file_not_found");
  EXPECT_EQ(error_of("").code, "file_not_found");
}

TEST_F(MappedFileTest, MoreFilesThanCanBeGuardedAreRefused) {
  const std::string path = write("file", "x");
  std::vector<std::shared_ptr<const MappedFile>> files;
  Error error;
  for (int i = 0; i < 2000 && error.code.empty(); ++i) {
    auto file = MappedFile::open(path);
    if (file)
      files.push_back(*file);
    else
      error = file.error();
  }
  EXPECT_EQ(error.code, "too_many_files");
  files.clear();
  EXPECT_EQ(error_of(path).code, "ok") << "closing makes room again";
}

TEST_F(MappedFileTest, A12_ChangesAreSeen) {
  const std::string path = write("file", std::string(10000, 'x'));
  const auto longer = MappedFile::open(path);
  ASSERT_TRUE(longer);
  std::ofstream(path, std::ios::app) << "more";
  EXPECT_FALSE((*longer)->unchanged());

  const auto touched = MappedFile::open(path);
  ASSERT_TRUE(touched);
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
  EXPECT_FALSE((*touched)->unchanged());
}

TEST_F(MappedFileTest, AFileThatAnotherTookThePlaceOfIsNotCurrent) {
  const std::string path = write("file", "some bytes");
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file);
  EXPECT_TRUE((*file)->is_current());
  std::filesystem::rename(write("new", "some bytes"), path);
  EXPECT_TRUE((*file)->unchanged());
  EXPECT_FALSE((*file)->is_current());
  std::filesystem::remove(path);
  EXPECT_FALSE((*file)->is_current());
}

// Nobody who reads another file is concerned.
TEST_F(MappedFileTest, A12_TruncatedWhileMapped) {
  guard_mapped_files();
  constexpr size_t kBytes = 1 << 20;
  const std::string path = write("file", std::string(kBytes, 'x'));
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file);
  const auto other = MappedFile::open(write("other", "some bytes"));
  ASSERT_TRUE(other);
  const auto modified = std::filesystem::last_write_time(path);
  const auto bytes = (*file)->bytes();
  EXPECT_EQ(bytes[kBytes - 1], std::byte{'x'});
  std::filesystem::resize_file(path, 100);
  EXPECT_FALSE((*file)->unchanged());
  size_t sum = 0;  // touches every lost page
  for (size_t i = 1 << 16; i < kBytes; i += 512) sum += static_cast<size_t>(bytes[i]);
  EXPECT_EQ(sum, 0u);
  EXPECT_EQ(bytes[99], std::byte{'x'}) << "what is left of the file stays";
  std::filesystem::resize_file(path, kBytes);
  std::filesystem::last_write_time(path, modified);
  EXPECT_FALSE((*file)->unchanged()) << "its pages are lost though it looks as it was";
  EXPECT_TRUE((*other)->unchanged());
  EXPECT_TRUE((*MappedFile::open(path))->unchanged());
}

using MappedFileDeathTest = MappedFileTest;

TEST_F(MappedFileDeathTest, OtherBusErrorsStillKill) {
  EXPECT_EXIT(
      {
        guard_mapped_files();
        std::raise(SIGBUS);
      },
      testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace martlet
