#include "engine/cache_file.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "engine/harness.h"
#include "file/gguf_bytes.h"

namespace martlet {
namespace {

namespace fs = std::filesystem;

// Pages of 16 bytes, four tokens each, as a model's cache would be.
struct Cache {
  explicit Cache(int32_t pages) : pool(pages), bytes(static_cast<size_t>(pages)) {}

  // Computes what the tree does not know of `tokens`, whose pages then hold their first token.
  void prompt(const std::vector<Token>& tokens, int64_t scope = 0) {
    PrefixTree::Match match = tree.adopt(scope, tokens);
    if (match.partial >= 0) pool.release(match.partial);
    std::vector<Page> held = std::move(match.pages);
    for (size_t at = held.size() * 4; at < tokens.size(); at += 4) {
      held.push_back(*pool.allocate());
      bytes[static_cast<size_t>(held.back())].fill(static_cast<std::byte>(tokens[at]));
    }
    tree.publish(scope, tokens, held);
    for (const Page page : held) pool.release(page);
  }
  // Tokens that the tree knows of a prompt, after a look at the pages.
  size_t known(const std::vector<Token>& tokens, int64_t scope = 0) {
    PrefixTree::Match match = tree.adopt(scope, tokens);
    size_t at = 0;
    for (const Page page : match.pages) {
      EXPECT_EQ(bytes[static_cast<size_t>(page)][7], static_cast<std::byte>(tokens[at]));
      at += 4;
      pool.release(page);
    }
    if (match.partial >= 0) pool.release(match.partial);
    return at + static_cast<size_t>(match.partial_tokens);
  }
  Result<int32_t> save(const CacheFile& file) {
    return save_prefixes(file, tree, 0, [&](Page page, std::span<std::byte> out) {
      std::ranges::copy(bytes[static_cast<size_t>(page)], out.begin());
    });
  }
  Result<int32_t> restore(const CacheFile& file) {
    return restore_prefixes(file, tree, 0, pool, [&](Page page, std::span<const std::byte> in) {
      std::ranges::copy(in, bytes[static_cast<size_t>(page)].begin());
    });
  }

  PagePool pool;
  PrefixTree tree{pool, 4};
  std::vector<std::array<std::byte, 16>> bytes;
};

class SavedCache : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  // Three prompts of which two share a page, and one of another tenant.
  void save() {
    Cache cache(64);
    for (const auto& prompt : prompts_) cache.prompt(prompt);
    cache.prompt({90, 91, 92, 93}, 1);
    const auto saved = cache.save(file_);
    ASSERT_TRUE(saved);
    EXPECT_EQ(*saved, 6);
  }
  std::string read() const {
    std::ifstream in(file_.path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& bytes) { std::ofstream(file_.path, std::ios::binary) << bytes; }

  const std::vector<std::vector<Token>> prompts_ = {
      {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {1, 2, 3, 4, 20, 21, 22, 23}, {30, 31, 32, 33, 34, 35, 36, 37}};
  const fs::path folder_ = fs::temp_directory_path() / ("martlet-cache-" + std::to_string(getpid()));
  const CacheFile file_{(folder_ / "a.kv").string(), 77, 4, 100, 16};
};

TEST_F(SavedCache, ComesBackAsItWas) {
  save();
  Cache cache(64);
  const auto restored = cache.restore(file_);
  ASSERT_TRUE(restored) << restored.error().line();
  EXPECT_EQ(*restored, 6);
  EXPECT_EQ(cache.pool.reclaimable(), 6);
  EXPECT_EQ(cache.pool.used(), 0);
  for (const auto& prompt : prompts_) EXPECT_EQ(cache.known(prompt), prompt.size());
  EXPECT_EQ(cache.known({90, 91, 92, 93}), 0u) << "another tenant's";
  // And again, from what was restored.
  ASSERT_TRUE(cache.save(file_));
  Cache third(64);
  ASSERT_TRUE(third.restore(file_));
  for (const auto& prompt : prompts_) EXPECT_EQ(third.known(prompt), prompt.size());
  while (third.tree.evict()) continue;
  EXPECT_EQ(third.pool.free(), 64);
}

TEST_F(SavedCache, ASmallerPoolTakesWhatWasUsedLast) {
  save();
  Cache cache(3);
  const auto restored = cache.restore(file_);
  ASSERT_TRUE(restored);
  EXPECT_EQ(*restored, 3);
  EXPECT_EQ(cache.known(prompts_[2]), 8u);
  EXPECT_EQ(cache.known(prompts_[1]), 4u);
}

TEST_F(SavedCache, NoFileIsNoError) {
  Cache cache(8);
  const auto restored = cache.restore(file_);
  ASSERT_TRUE(restored);
  EXPECT_EQ(*restored, 0);
}

TEST_F(SavedCache, F8_EveryDamageIsRefusedAndTheFileRemoved) {
  save();
  const std::string good = read();
  std::vector<std::string> bad = {"", "MRTKVC01", good + "x", good.substr(0, good.size() - 1), std::string(4096, '\0')};
  for (size_t at = 0; at < good.size(); ++at) {
    bad.push_back(good);
    bad.back()[at] = static_cast<char>(bad.back()[at] ^ 0x40);
  }
  for (size_t i = 0; i < bad.size(); ++i) {
    write(bad[i]);
    Cache cache(64);
    const auto restored = cache.restore(file_);
    ASSERT_FALSE(restored) << i;
    EXPECT_EQ(restored.error().code, "state_invalid");
    EXPECT_FALSE(fs::exists(file_.path));
    EXPECT_EQ(cache.pool.free(), 64) << "the cache is as before";
    EXPECT_EQ(cache.tree.pages(), 0);
  }
}

// Somebody who can compute checksums must not get further than somebody who cannot.
TEST_F(SavedCache, F8_RecordsThatLieAreRefusedThoughTheirChecksumIsRight) {
  constexpr size_t kHeader = 32, kRecord = 24, kPages = 6;
  struct Lie {
    size_t page, field;  // 0 parent, 1 number of tokens, 2 and on tokens
    std::vector<int32_t> values;
  };
  // Pages 3 and 4 go on from page 2; the last makes them the same.
  const std::vector<Lie> lies = {{0, 0, {0}},   {0, 0, {-2}}, {3, 0, {3}},    {3, 0, {1 << 30}},
                                 {2, 1, {0}},   {2, 1, {5}},  {2, 1, {-1}},   {0, 1, {3}},
                                 {1, 2, {100}}, {1, 2, {-1}}, {3, 1, {1, 5}}, {3, 2, {5, 6, 7, 8}}};
  for (const Lie& lie : lies) {
    save();
    std::string bytes = read();
    std::memcpy(bytes.data() + kHeader + lie.page * kRecord + lie.field * 4, lie.values.data(), lie.values.size() * 4);
    const uint64_t sum = XXH3_64bits(bytes.data(), kHeader + kPages * kRecord);
    std::memcpy(bytes.data() + kHeader + kPages * kRecord, &sum, sizeof sum);
    write(bytes);
    Cache cache(64);
    EXPECT_FALSE(cache.restore(file_)) << lie.page << " " << lie.field << " " << lie.values[0];
    EXPECT_EQ(cache.pool.free(), 64);
  }
}

TEST_F(SavedCache, F8_AnotherModelsIsRefused) {
  for (int i = 0; i < 4; ++i) {
    save();
    CacheFile other = file_;
    if (i == 0) other.fingerprint = 78;
    if (i == 1) other.page_tokens = 8;
    if (i == 2) other.page_bytes = 32;
    if (i == 3) other.vocabulary = 10;
    Cache cache(64);
    EXPECT_FALSE(cache.restore(other)) << i;
    EXPECT_FALSE(fs::exists(file_.path));
  }
}

// Four mebibytes of weights, of which no sample holds the middle.
TEST_F(SavedCache, F8_AFingerprintIsOneFilesAsItWasLastWritten) {
  const std::string path = (folder_ / "a.gguf").string(), copy = (folder_ / "b.gguf").string();
  std::ofstream(path, std::ios::binary) << RawGguf().header(1, 0).tensor("a", {1 << 20}, 0, 0).data(4 << 20).bytes;
  const auto fingerprint = [](const std::string& of) {
    const auto file = ModelFile::open(of);
    EXPECT_TRUE(file) << file.error().line();
    return cache_fingerprint(**file, "cpu f16");
  };
  const uint64_t first = fingerprint(path);
  EXPECT_EQ(fingerprint(path), first) << "opened again";
  fs::copy_file(path, copy);
  fs::last_write_time(copy, fs::last_write_time(path));
  EXPECT_NE(fingerprint(copy), first) << "another file in its place";
  std::fstream(path, std::ios::binary | std::ios::in | std::ios::out).seekp((2 << 20) + (40 << 10)).put('\1');
  fs::last_write_time(path, fs::last_write_time(copy) + std::chrono::nanoseconds(4));  // clocks of disks tick slowly
  EXPECT_NE(fingerprint(path), first) << "written to";
}

TEST_F(SavedCache, F5_WhatCannotBeWrittenLeavesTheOldFile) {
  save();
  const std::string good = read();
  Cache cache(8);
  cache.prompt({1, 2, 3, 4});
  fs::create_directory(file_.path + ".tmp");  // where the new one would be written
  const auto saved = cache.save(file_);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().kind, ErrorKind::io);
  EXPECT_EQ(read(), good);
  fs::remove(file_.path + ".tmp");
  // What a killed process left is swept away.
  std::ofstream(file_.path + ".tmp") << "half";
  Cache later(64);
  ASSERT_TRUE(later.restore(file_));
  EXPECT_FALSE(fs::exists(file_.path + ".tmp"));
}

}  // namespace
}  // namespace martlet
