// Any bytes as a saved prompt cache are either restored, and then every page that the tree knows was written, or
// refused and removed. The first byte chooses whether checksums are made right, so that what lies behind them is
// reached too.

#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "engine/cache_file.h"

namespace martlet {
namespace {

constexpr int32_t kPageTokens = 2, kPageBytes = 4, kPool = 8;
constexpr size_t kHeader = 32, kRecord = 4 * (2 + kPageTokens);

void require(bool condition) {
  if (!condition) std::abort();
}

void put_sum(std::vector<uint8_t>& bytes, size_t begin, size_t end) {
  const uint64_t sum = XXH3_64bits(bytes.data() + begin, end - begin);
  std::memcpy(bytes.data() + end, &sum, sizeof sum);
}

// A file whose header and checksums are right and whose records are the input's.
std::vector<uint8_t> well_formed(const uint8_t* data, size_t size) {
  const size_t pages = size / kRecord;
  std::vector<uint8_t> out(kHeader + pages * kRecord + 8 + pages * (kPageBytes + 8));
  const int32_t numbers[] = {kPageTokens, static_cast<int32_t>(pages), kPageBytes, 0};
  std::memcpy(out.data(), "MRTKVC01", 8);
  out[8] = 7;
  std::memcpy(out.data() + 16, numbers, sizeof numbers);
  std::memcpy(out.data() + kHeader, data, pages * kRecord);
  size_t at = kHeader + pages * kRecord;
  put_sum(out, 0, at);
  for (at += 8; at < out.size(); at += kPageBytes + 8) put_sum(out, at, at + kPageBytes);
  return out;
}

void try_file(const std::vector<uint8_t>& bytes) {
  static const CacheFile file{
      (std::filesystem::temp_directory_path() / ("martlet-fuzz-" + std::to_string(getpid()))).string(), 7, kPageTokens,
      100, kPageBytes};
  std::ofstream(file.path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  PagePool pool(kPool);
  PrefixTree tree(pool, kPageTokens);
  std::vector<bool> written(kPool);
  const Result<int32_t> restored =
      restore_prefixes(file, tree, 0, pool, [&](Page page, std::span<const std::byte> page_bytes) {
        require(page_bytes.size() == kPageBytes);
        written.at(static_cast<size_t>(page)) = true;
      });
  require(std::filesystem::exists(file.path) == static_cast<bool>(restored));
  const std::vector<PrefixTree::Listed> known = tree.list(0);
  require(known.size() == static_cast<size_t>(restored ? *restored : 0));
  for (const PrefixTree::Listed& each : known) require(written.at(static_cast<size_t>(each.page)));
  while (tree.evict()) continue;
  require(pool.used() == 0 && pool.free_pages().size() == kPool);
  std::filesystem::remove(file.path);
}

}  // namespace
}  // namespace martlet

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  martlet::try_file(data[0] % 2 ? martlet::well_formed(data + 1, size - 1)
                                : std::vector<uint8_t>(data + 1, data + size));
  return 0;
}
