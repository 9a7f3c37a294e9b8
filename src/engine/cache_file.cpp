#include "engine/cache_file.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "file/model_file.h"

namespace martlet {
namespace {

static_assert(std::endian::native == std::endian::little, "the numbers of a cache file are little endian");

constexpr char kMagic[8] = {'M', 'R', 'T', 'K', 'V', 'C', '0', '1'};

struct Header {
  char magic[8];
  uint64_t fingerprint;
  int32_t page_tokens, pages;
  int64_t page_bytes;
};
static_assert(sizeof(Header) == 32);

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

Error invalid() {
  return {ErrorKind::io, "state_invalid", "a saved prompt cache was damaged or another model's and has been removed",
          ""};
}

Error cannot_write(int number, uint64_t bytes) {
  const bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
  return {ErrorKind::io, full ? "disk_full" : "io_error",
          "the prompt cache could not be saved: " + std::to_string(bytes) + " bytes were to be written", "--cache-dir"};
}

size_t record_ints(const CacheFile& file) {
  return 2 + static_cast<size_t>(file.page_tokens);
}

// Header and records as they lie in the file.
std::vector<std::byte> describe(const CacheFile& file, std::span<const PrefixTree::Listed> listed) {
  Header header{{}, file.fingerprint, file.page_tokens, static_cast<int32_t>(listed.size()), file.page_bytes};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  std::vector<int32_t> records(listed.size() * record_ints(file), 0);
  for (size_t i = 0; i < listed.size(); ++i) {
    int32_t* record = records.data() + i * record_ints(file);
    record[0] = listed[i].parent;
    record[1] = static_cast<int32_t>(listed[i].tokens.size());
    std::copy(listed[i].tokens.begin(), listed[i].tokens.end(), record + 2);
  }
  std::vector<std::byte> out(sizeof header + records.size() * sizeof(int32_t));
  std::memcpy(out.data(), &header, sizeof header);
  std::memcpy(out.data() + sizeof header, records.data(), records.size() * sizeof(int32_t));
  return out;
}

bool put(std::FILE* to, std::span<const std::byte> bytes) {
  const uint64_t sum = XXH3_64bits(bytes.data(), bytes.size());
  return std::fwrite(bytes.data(), 1, bytes.size(), to) == bytes.size() && std::fwrite(&sum, sizeof sum, 1, to) == 1;
}

// False at the end of the file, or where the bytes are not those that were written.
bool get(std::FILE* from, std::span<std::byte> bytes) {
  uint64_t sum = 0;
  return std::fread(bytes.data(), 1, bytes.size(), from) == bytes.size() &&
         std::fread(&sum, sizeof sum, 1, from) == 1 && sum == XXH3_64bits(bytes.data(), bytes.size());
}

bool write_all(const CacheFile& file, std::span<const PrefixTree::Listed> listed,
               FunctionRef<void(Page, std::span<std::byte>)> read_page, std::FILE* to) {
  bool good = put(to, describe(file, listed));
  std::vector<std::byte> page(static_cast<size_t>(file.page_bytes));
  for (size_t i = 0; good && i < listed.size(); ++i) {
    read_page(listed[i].page, page);
    good = put(to, page);
  }
  return good && std::fflush(to) == 0 && fsync(fileno(to)) == 0;
}

// What a file says, checked; its tokens are borrowed from `records`.
struct Contents {
  std::vector<int32_t> records;
  std::vector<PrefixTree::Listed> listed;
};

bool read_records(const CacheFile& file, std::FILE* from, int64_t size, Contents& out) {
  Header header;
  if (std::fread(&header, sizeof header, 1, from) != 1 || std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 ||
      header.fingerprint != file.fingerprint || header.page_tokens != file.page_tokens ||
      header.page_bytes != file.page_bytes || header.pages < 1)
    return false;
  // The file's own size bounds what is allocated for it.
  const int64_t record = static_cast<int64_t>(record_ints(file)) * 4, pages = header.pages;
  if (size < 0 || pages > size / (record + file.page_bytes + 8) ||
      size != static_cast<int64_t>(sizeof header) + 8 + pages * (record + file.page_bytes + 8))
    return false;
  std::vector<std::byte> bytes(sizeof header + static_cast<size_t>(pages * record));
  std::rewind(from);
  if (!get(from, bytes)) return false;
  out.records.resize(static_cast<size_t>(pages) * record_ints(file));
  std::memcpy(out.records.data(), bytes.data() + sizeof header, out.records.size() * sizeof(int32_t));
  return true;
}

// No page begins another one behind the same parent: the tree could not hold both. In lexicographic order such two
// would be neighbours.
bool distinct(std::span<const PrefixTree::Listed> listed) {
  std::vector<const PrefixTree::Listed*> sorted;
  for (const PrefixTree::Listed& each : listed) sorted.push_back(&each);
  std::ranges::sort(sorted, [](const auto* a, const auto* b) {
    if (a->parent != b->parent) return a->parent < b->parent;
    return std::ranges::lexicographical_compare(a->tokens, b->tokens);
  });
  const auto begins = [](const auto* a, const auto* b) {
    return a->parent == b->parent && std::ranges::mismatch(a->tokens, b->tokens).in1 == a->tokens.end();
  };
  return std::ranges::adjacent_find(sorted, begins) == sorted.end();
}

bool list_records(const CacheFile& file, Contents& out) {
  const auto full = static_cast<size_t>(file.page_tokens);
  for (size_t at = 0; at < out.records.size(); at += record_ints(file)) {
    const int32_t parent = out.records[at], count = out.records[at + 1];
    if (count < 1 || count > file.page_tokens || parent < -1 || parent >= static_cast<int32_t>(out.listed.size()))
      return false;
    if (parent >= 0 && out.listed[static_cast<size_t>(parent)].tokens.size() != full) return false;
    const std::span<const Token> tokens(out.records.data() + at + 2, static_cast<size_t>(count));
    if (!std::ranges::all_of(tokens, [&](Token token) { return token >= 0 && token < file.vocabulary; })) return false;
    out.listed.push_back({parent, tokens, -1});
  }
  return distinct(out.listed);
}

// Every page is checked, also those that the pool has no room for: a damaged file is not half believed.
bool read_pages(const CacheFile& file, std::FILE* from, PagePool& pool, Contents& contents,
                FunctionRef<void(Page, std::span<const std::byte>)> write_page) {
  std::vector<std::byte> bytes(static_cast<size_t>(file.page_bytes));
  for (PrefixTree::Listed& each : contents.listed) {
    if (!get(from, bytes)) return false;
    // Behind a page that found no room nothing can follow, and the list is by use: what comes later is older.
    const std::optional<Page> page = pool.allocate();
    if (!page) continue;
    each.page = *page;
    write_page(*page, bytes);
  }
  return true;
}

}  // namespace

uint64_t cache_fingerprint(const ModelFile& file, const std::string& format) {
  constexpr size_t kEnds = size_t{256} << 10, kSample = 4096, kSamples = 64;
  uint64_t sum = XXH3_64bits(format.data(), format.size());
  const auto add = [&](std::span<const std::byte> bytes) {
    sum = XXH3_64bits_withSeed(bytes.data(), bytes.size(), sum);
  };
  for (const auto& part : file.files()) {
    const std::span<const std::byte> bytes = part->bytes();
    const uint64_t size = bytes.size();
    add(std::as_bytes(std::span(&size, 1)));
    add(std::as_bytes(std::span(&part->identity(), 1)));
    add(bytes.first(std::min(kEnds, bytes.size())));
    add(bytes.last(std::min(kEnds, bytes.size())));
    for (size_t i = 0; i < kSamples && bytes.size() > kSample; ++i)
      add(bytes.subspan((bytes.size() - kSample) / kSamples * i, kSample));
  }
  return sum;
}

Result<int32_t> save_prefixes(const CacheFile& file, const PrefixTree& tree, int64_t scope,
                              FunctionRef<void(Page, std::span<std::byte>)> read_page) {
  const std::vector<PrefixTree::Listed> listed = tree.list(scope);
  if (listed.empty()) return 0;
  const uint64_t bytes = listed.size() * static_cast<uint64_t>(file.page_bytes);
  const std::string beside = file.path + ".tmp";
  const int descriptor = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return cannot_write(errno, bytes);
  File to(fdopen(descriptor, "wb"));
  bool good = write_all(file, listed, read_page, to.get());
  good = good && std::rename(beside.c_str(), file.path.c_str()) == 0;
  if (good) return static_cast<int32_t>(listed.size());
  const int number = errno;
  unlink(beside.c_str());
  return cannot_write(number, bytes);
}

Result<int32_t> restore_prefixes(const CacheFile& file, PrefixTree& tree, int64_t scope, PagePool& pool,
                                 FunctionRef<void(Page, std::span<const std::byte>)> write_page) {
  unlink((file.path + ".tmp").c_str());  // of a process that was killed while it saved
  const File from(std::fopen(file.path.c_str(), "rbe"));
  if (!from) return 0;
  struct stat status = {};
  const bool regular = fstat(fileno(from.get()), &status) == 0 && S_ISREG(status.st_mode);
  Contents contents;
  bool good = false, starved = false;
  try {
    good = regular && read_records(file, from.get(), status.st_size, contents) && list_records(file, contents) &&
           read_pages(file, from.get(), pool, contents, write_page);
  } catch (const std::bad_alloc&) {
    starved = true;
  }
  // Pages are handed out in the list's order until there are none, so those that have one come first.
  const auto placed = std::ranges::find(contents.listed, -1, &PrefixTree::Listed::page);
  const std::span<const PrefixTree::Listed> restored(contents.listed.begin(), placed);
  if (good) return tree.restore(scope, restored);
  for (const PrefixTree::Listed& each : restored) pool.release(each.page);
  if (starved) return Error{ErrorKind::memory, "out_of_memory", "no memory to restore the prompt cache", "--cache-dir"};
  unlink(file.path.c_str());
  return invalid();
}

}  // namespace martlet
