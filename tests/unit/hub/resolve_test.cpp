#include "hub/resolve.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "hub/alias.h"
#include "hub/paths.h"
#include "hub/reference.h"

namespace martlet {
namespace {

namespace fs = std::filesystem;

class Resolve : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "martlet-resolve-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    home_ = pattern;
    for (const char* name : {"MARTLET_HOME", "HF_HUB_CACHE"}) saved_[name] = environment(name);
    setenv("MARTLET_HOME", (home_ / "store").c_str(), 1);
    setenv("HF_HUB_CACHE", (home_ / "cache").c_str(), 1);
  }
  void TearDown() override {
    for (const auto& [name, value] : saved_)
      value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
    fs::remove_all(home_);
  }
  static void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  fs::path cached(const std::string& file) {
    return home_ / "cache/models--some--repo/snapshots" / std::string(40, 'a') / file;
  }
  void cache_file(const std::string& file) {
    write(home_ / "cache/models--some--repo/refs/main", std::string(40, 'a'));
    write(cached(file), "GGUF");
  }

  fs::path home_;
  std::map<std::string, std::string> saved_;
};

TEST_F(Resolve, DefaultModelMustBeFetchedAndWhole) {
  EXPECT_EQ(resolve_model("").error().code, "model_not_found");
  write(default_alias().path(), "cut short");
  EXPECT_EQ(resolve_model("smollm2").error().where, default_alias().path());
  fs::resize_file(default_alias().path(), default_alias().bytes);
  EXPECT_EQ(*resolve_model(""), default_alias().path());
  EXPECT_EQ(*resolve_model("smollm2"), default_alias().path());
}

TEST_F(Resolve, PathsPassThroughAndMissingOnesSayHow) {
  write(home_ / "a.gguf", "");
  EXPECT_EQ(*resolve_model((home_ / "a.gguf").string()), (home_ / "a.gguf").string());
  const auto missing = resolve_model((home_ / "b.gguf").string());
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().text.find("martlet pull"), std::string::npos);
  EXPECT_EQ(exit_code(missing.error().kind), 5);
}

TEST_F(Resolve, HubModelsComeFromTheCache) {
  EXPECT_EQ(resolve_model("hf:some/repo").error().code, "model_not_found");
  cache_file("x-Q8_0.gguf");
  EXPECT_EQ(*resolve_model("hf:some/repo"), cached("x-Q8_0.gguf"));
  cache_file("sub/x-Q4_K_M-00001-of-00002.gguf");
  EXPECT_EQ(*resolve_model("hf:some/repo"), cached("x-Q8_0.gguf")) << "a split model with a part missing is no choice";
  cache_file("sub/x-Q4_K_M-00002-of-00002.gguf");
  EXPECT_EQ(*resolve_model("hf:some/repo"), cached("sub/x-Q4_K_M-00001-of-00002.gguf"));
  EXPECT_EQ(*resolve_model("hf:some/repo:q8_0"), cached("x-Q8_0.gguf"));
  EXPECT_EQ(*resolve_model("hf:some/repo:x-Q8_0.gguf"), cached("x-Q8_0.gguf"));
  EXPECT_EQ(resolve_model("hf:some/repo:Q5_0").error().code, "model_not_found");
}

TEST_F(Resolve, BrokenLinksAreNotThere) {
  cache_file("x.gguf");
  fs::remove(cached("x.gguf"));
  fs::create_symlink("../../blobs/gone", cached("x.gguf"));
  EXPECT_EQ(resolve_model("hf:some/repo").error().code, "model_not_found");
}

TEST(Reference, E5_NothingLeavesTheCache) {
  for (const char* bad :
       {"hf:../repo", "hf:a/..", "hf:a/b:../c.gguf", "hf:a/b:/etc/passwd", "hf:a/b:x/../../y", "hf:a/b:c\\d", "hf:a",
        "hf:/b", "hf:a/", "hf:a/b/c", "hf:a/b:", "hf:a--b/c", "hf:-a/b", "hf:.a/b", "hf:a/b%2e", "hf:a/b:c\n"})
    EXPECT_EQ(parse_hub_reference(bad).error().code, "bad_reference") << bad;
  const auto good = parse_hub_reference("hf:Some-One/Repo_1.5:sub/x.gguf");
  ASSERT_TRUE(good);
  EXPECT_EQ(good->folder(), "models--Some-One--Repo_1.5");
  EXPECT_EQ(good->file, "sub/x.gguf");
  EXPECT_TRUE(parse_hub_reference("owner/repo"));
}

TEST(Reference, HexHasOneLengthAndCase) {
  EXPECT_TRUE(is_hex(std::string(64, 'f'), 64));
  EXPECT_FALSE(is_hex(std::string(63, 'f'), 64));
  EXPECT_FALSE(is_hex(std::string(64, 'F'), 64));
  EXPECT_FALSE(is_hex(std::string(62, 'f') + "..", 64));
}

}  // namespace
}  // namespace martlet
