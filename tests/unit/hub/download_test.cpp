#include "hub/download.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "faulty_file_system.h"
#include "hub/journal.h"
#include "hub/sha256.h"

namespace martlet {
namespace {

namespace fs = std::filesystem;

std::string sha256_of(const std::string& text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.finish();
}

// Serves a text; a read of `bad` fails with `code`.
class TextSource final : public Source {
 public:
  struct Shared {
    std::string text;
    std::string code;
    uint64_t bad = UINT64_MAX;
    std::atomic<uint64_t> bytes_read{0};
  };
  explicit TextSource(Shared& shared) : shared_(shared) {}
  Status read(uint64_t begin, uint64_t end, FunctionRef<Status(std::span<const std::byte>)> sink) override {
    const bool whole = begin == 0 && end == shared_.text.size();
    if (begin <= shared_.bad && shared_.bad < end && !whole)
      return Error{ErrorKind::network, shared_.code, "injected", ""};
    const auto all = std::as_bytes(std::span(shared_.text)).subspan(begin, end - begin);
    MARTLET_TRY(sink(all.first(all.size() / 2)));
    MARTLET_TRY(sink(all.subspan(all.size() / 2)));
    shared_.bytes_read += end - begin;
    return {};
  }

 private:
  Shared& shared_;
};

class DownloadTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "martlet-download-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    std::mt19937 random(1);
    for (int i = 0; i < (2 << 20) + 77; ++i) source_.text += static_cast<char>(random());
  }
  void TearDown() override { fs::remove_all(folder_); }

  Status get(FileSystem& files = real_file_system(), std::string sha256 = "") {
    if (sha256.empty()) sha256 = sha256_of(source_.text);
    const Download what{source_.text.size(), sha256, folder_ / "blob", 4};
    return download(
        what, [&] { return std::make_unique<TextSource>(source_); }, files,
        [&](Stage, uint64_t done, uint64_t total) { EXPECT_LE(done, total); });
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename().string());
    return names;
  }
  std::string content() const {
    std::ifstream file(folder_ / "blob", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_;
  TextSource::Shared source_;
};

TEST_F(DownloadTest, WritesTheWholeFileAndNothingElse) {
  ASSERT_TRUE(get());
  EXPECT_EQ(content(), source_.text);
  EXPECT_EQ(names(), std::vector<std::string>{"blob"});
}

TEST_F(DownloadTest, F2_MismatchNeverGetsTheFinalName) {
  const Status status = get(real_file_system(), std::string(64, '0'));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, "digest_mismatch");
  EXPECT_EQ(exit_code(status.error().kind), 6);
  EXPECT_TRUE(names().empty());
}

TEST_F(DownloadTest, F3_ResumesAfterNetworkErrors) {
  source_.bad = 2 << 20;
  source_.code = "source_changed";
  EXPECT_EQ(get().error().code, "source_changed");
  const uint64_t before = source_.bytes_read;
  source_.bad = UINT64_MAX;
  ASSERT_TRUE(get());
  EXPECT_EQ(content(), source_.text);
  // What was under way on the other connections may be read again.
  EXPECT_LE(source_.bytes_read, source_.text.size() + 3 * chunk_bytes(source_.text.size()));
  EXPECT_GT(before, 0u);
}

TEST_F(DownloadTest, F4_WholeFilesOnly) {
  source_.bad = 1 << 20;
  source_.code = "range_ignored";
  ASSERT_TRUE(get());
  EXPECT_EQ(content(), source_.text);
}

TEST_F(DownloadTest, F5_NthDiskOperationFails) {
  FaultyFileSystem counting(1 << 30, "");
  ASSERT_TRUE(get(counting));
  ASSERT_GT(counting.count(), 10);
  for (const char* code : {"disk_full", "io_error"}) {
    for (int nth = 1; nth <= counting.count(); ++nth) {
      fs::remove(folder_ / "blob");
      FaultyFileSystem files(nth, code);
      const Status status = get(files);
      ASSERT_FALSE(status) << nth;
      EXPECT_EQ(status.error().code, code) << nth;
      EXPECT_EQ(exit_code(status.error().kind), 5);
      EXPECT_TRUE(names().empty()) << "left after failure " << nth;
      const bool says_bytes =
          status.error().text.find(std::to_string(source_.text.size()) + " bytes") != std::string::npos;
      EXPECT_EQ(says_bytes, status.error().code == "disk_full");
    }
  }
}

TEST_F(DownloadTest, F5_FullDiskIsSeenBeforehand) {
  class Full final : public FileSystem {
   public:
    Result<std::unique_ptr<File>> open(const fs::path& path) override { return real_file_system().open(path); }
    Status make_folders(const fs::path& path) override { return real_file_system().make_folders(path); }
    Status rename(const fs::path& from, const fs::path& to) override { return real_file_system().rename(from, to); }
    Status link(const fs::path& target, const fs::path& path) override { return real_file_system().link(target, path); }
    void remove(const fs::path& path) override { real_file_system().remove(path); }
    uint64_t available(const fs::path&) override { return 1000; }
  } files;
  EXPECT_EQ(get(files).error().code, "disk_full");
  EXPECT_EQ(source_.bytes_read, 0u);
  EXPECT_TRUE(names().empty());
  // Whatever size a source claims, nothing is kept for each of its chunks before there is room for them.
  for (const uint64_t bytes : {uint64_t{1} << 50, uint64_t{1} << 63, UINT64_MAX}) {
    const Download what{bytes, std::string(64, 'a'), folder_ / "blob", 4};
    const Status status = download(
        what, [&] { return std::make_unique<TextSource>(source_); }, files, [](Stage, uint64_t, uint64_t) {});
    EXPECT_EQ(status.error().code, "disk_full");
    EXPECT_TRUE(names().empty());
  }
}

TEST_F(DownloadTest, JournalSurvivesWhatAKillLeaves) {
  const fs::path path = folder_ / "journal";
  const std::string digest(64, 'a');
  {
    auto journal = Journal::open(real_file_system(), path, 10 << 20, 1 << 20);
    ASSERT_TRUE(journal);
    ASSERT_TRUE(journal->add(3, digest));
    ASSERT_TRUE(journal->add(7, digest));
  }
  fs::resize_file(path, fs::file_size(path) - 5);  // the last line is cut short
  {
    auto journal = Journal::open(real_file_system(), path, 10 << 20, 1 << 20);
    ASSERT_EQ(journal->chunks().size(), 1u);
    EXPECT_TRUE(journal->chunks().contains(3));
    ASSERT_TRUE(journal->add(8, digest));
  }
  EXPECT_EQ(Journal::open(real_file_system(), path, 10 << 20, 1 << 20)->chunks().size(), 2u);
  EXPECT_EQ(Journal::open(real_file_system(), path, 9 << 20, 1 << 20)->chunks().size(), 0u) << "another file";
  std::ofstream(path) << "martlet-download 1 10485760 1048576\n99 " << digest << "\n1 xyz\n2 " << digest << "\n";
  EXPECT_EQ(Journal::open(real_file_system(), path, 10 << 20, 1 << 20)->chunks().size(), 0u)
      << "out of range, malformed";
}

TEST(Sha256, KnownDigest) {
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace martlet
