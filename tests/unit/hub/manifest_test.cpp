#include "hub/manifest.h"

#include <gtest/gtest.h>

namespace martlet {
namespace {

const std::string kCommit(40, 'c');

std::string manifest(const std::string& files, const std::string& commit = kCommit) {
  return R"({"id":"a/b","sha":")" + commit + R"(","siblings":[)" + files + "]}";
}

std::string lfs(const std::string& digest) {
  return R"({"rfilename":"m.gguf","size":9,"lfs":{"sha256":")" + digest + R"(","size":9,"pointerSize":134}})";
}

TEST(Manifest, ReadsFiles) {
  const auto parsed = parse_manifest(manifest(R"({"rfilename":"README.md","size":3},)" + lfs(std::string(64, 'a'))));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->commit, kCommit);
  ASSERT_EQ(parsed->files.size(), 2u);
  EXPECT_EQ(parsed->find("m.gguf")->sha256, std::string(64, 'a'));
  EXPECT_EQ(parsed->find("m.gguf")->bytes, 9u);
  EXPECT_EQ(parsed->find("README.md")->sha256, "");
  EXPECT_EQ(parsed->find("other"), nullptr);
}

TEST(ManifestFaults, F1_InvalidDigest) {
  for (const std::string& digest :
       {std::string(63, 'a'), std::string(65, 'a'), std::string("../../x"), std::string(64, 'G'), std::string()})
    EXPECT_EQ(parse_manifest(manifest(lfs(digest))).error().code, "invalid_digest") << digest;
}

TEST(ManifestFaults, F7_BadManifest) {
  const std::string deep(100000, '[');
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("{}"), deep, manifest("", "abc"), manifest("3"),
        manifest("{}"), manifest(R"({"rfilename":"../x"})"), manifest(R"({"rfilename":7})")}) {
    const auto parsed = parse_manifest(text);
    ASSERT_FALSE(parsed) << text.substr(0, 100);
    EXPECT_EQ(parsed.error().code, "bad_manifest");
    EXPECT_EQ(exit_code(parsed.error().kind), 6);
  }
}

}  // namespace
}  // namespace martlet
