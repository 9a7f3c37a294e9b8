#include "file/gguf_reader.h"

#include <algorithm>

#include "file/gguf.h"
#include "file/gguf_cursor.h"
#include "file/gguf_metadata.h"
#include "file/gguf_tensors.h"
#include "file/names.h"

namespace martlet::gguf {
namespace {

struct Header {
  uint64_t tensors = 0, keys = 0;
};

// A key needs at least its length, one character, a type and one byte of value; a tensor its length, one character, a
// dimension count, a format and an offset.
constexpr uint64_t kLeastKeyBytes = 8 + 1 + 4 + 1, kLeastTensorBytes = 8 + 1 + 4 + 4 + 8;

Status check_count(Cursor& cursor, uint64_t count, uint64_t each, uint64_t limit) {
  if (!cursor.holds(count, each)) return cursor.error();
  if (count > limit)
    return cursor.error("too_many_entries", "more keys or tensors than any model has", cursor.offset());
  return {};
}

Result<Header> read_header(std::span<const std::byte> bytes, Cursor& cursor) {
  const auto begin = cursor.offset();
  const auto bad = [&](std::string text) { return cursor.error("bad_header", std::move(text), begin); };
  if (bytes.size() < kHeaderBytes) return bad("the file is too short to be a GGUF model");
  uint32_t magic = 0, version = 0;
  Header header;
  const bool whole =
      cursor.read(magic) && cursor.read(version) && cursor.read(header.tensors) && cursor.read(header.keys);
  if (!whole) return cursor.error();
  if (std::memcmp(&magic, kMagic.data(), sizeof magic) != 0) return bad("not a GGUF file: it does not start with GGUF");
  if (version == __builtin_bswap32(kOldestVersion) || version == __builtin_bswap32(kVersion))
    return bad("a big-endian GGUF file; convert it to little-endian");
  if (version < kOldestVersion || version > kVersion) return bad("GGUF versions 2 and 3 are read; this is another");
  MARTLET_TRY(check_count(cursor, header.keys, kLeastKeyBytes, kMaxKeys));
  MARTLET_TRY(check_count(cursor, header.tensors, kLeastTensorBytes, kMaxTensors));
  return header;
}

template <class Row>
Status check_names(const Cursor& cursor, const std::vector<Row>& rows) {
  const Row* duplicate = find_duplicate(rows, sorted_by_name(rows));
  if (!duplicate) return {};
  return cursor.error("duplicate_name", "two metadata keys or two tensors have the same name", name_of(*duplicate));
}

}  // namespace

Result<FileContents> parse(std::span<const std::byte> bytes, const std::string& name) {
  Cursor cursor(bytes, name);
  FileContents contents;
  MARTLET_ASSIGN(const Header header, read_header(bytes, cursor));
  MARTLET_ASSIGN(const uint64_t alignment, read_metadata(cursor, header.keys, contents.metadata));
  MARTLET_TRY(check_names(cursor, contents.metadata));
  MARTLET_TRY(read_tensors(cursor, header.tensors, alignment, bytes, contents.tensors));
  MARTLET_TRY(check_names(cursor, contents.tensors));
  return contents;
}

}  // namespace martlet::gguf
