#include "cli/chat/conversation.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace martlet::cli {
namespace {

namespace fs = std::filesystem;

class ConversationTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "martlet-conversation-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  static Conversation some() { return {"be brief", {{"user", "hi"}, {"assistant", "hé"}}}; }
  void expect_saved(const std::string& path) const {
    const auto loaded = Conversation::load(path);
    ASSERT_TRUE(loaded) << loaded.error().line();
    EXPECT_EQ(loaded->system, "be brief");
    ASSERT_EQ(loaded->messages.size(), 2u);
    EXPECT_EQ(loaded->messages[1].content, "hé");
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1) << "only the file is left";
  }
  fs::path folder_;
};

TEST_F(ConversationTest, SavesWhereTheNameSays) {
  const std::string path = folder_ / "a.json";
  std::ofstream(path) << "something longer than what comes now, and of no use to anybody " << std::string(999, 'x');
  ASSERT_TRUE(some().save(path));
  expect_saved(path);
}

TEST_F(ConversationTest, SavesBesideTheCurrentFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  const Status status = some().save("a.json");
  fs::current_path(before);
  ASSERT_TRUE(status) << status.error().line();
  expect_saved(folder_ / "a.json");
}

TEST_F(ConversationTest, F5_AFailedSaveKeepsWhatWasThere) {
  fs::create_directory(folder_ / "a.json.new");  // in the way of the file that is written first
  std::ofstream(folder_ / "a.json") << "old";
  EXPECT_FALSE(some().save(folder_ / "a.json"));
  EXPECT_EQ(fs::file_size(folder_ / "a.json"), 3u);
  EXPECT_TRUE(fs::is_directory(folder_ / "a.json.new")) << "it was not ours";
}

TEST_F(ConversationTest, OnlyRegularFiles) {
  const std::string fifo = folder_ / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {fifo, folder_.string(), std::string("/dev/zero")}) {
    EXPECT_EQ(some().save(path).error().code, "not_regular_file") << path;
    EXPECT_EQ(Conversation::load(path).error().code, "not_regular_file") << path;
  }
}

}  // namespace
}  // namespace martlet::cli
