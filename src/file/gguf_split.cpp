// Split models: `name-00002-of-00003.gguf` and its siblings. The first part holds the metadata of the model; every part
// says which it is (split.no, from 0), of how many (split.count), and how many tensors all have together.

#include <charconv>
#include <cstdio>
#include <optional>

#include "file/gguf_reader.h"

namespace martlet::gguf {
namespace {

constexpr std::string_view kExtension = ".gguf", kOf = "-of-";
constexpr size_t kDigits = 5, kSuffixBytes = 1 + kDigits + kOf.size() + kDigits + kExtension.size();

struct Split {
  int64_t number = 0, count = 1, tensors = 0;
};

std::optional<int64_t> integer(const FileContents& contents, std::string_view key) {
  const Metadata* value = contents.find(key);
  if (!value) return std::nullopt;
  if (const auto* n = std::get_if<int64_t>(value)) return *n;
  const auto* n = std::get_if<uint64_t>(value);
  return n && *n <= INT32_MAX ? std::optional(static_cast<int64_t>(*n)) : std::nullopt;
}

Error split_error(std::string code, std::string text, const std::string& path) {
  return {ErrorKind::model, std::move(code), std::move(text), path};
}

// What the part says of itself; a file without the keys is a whole model.
Result<Split> split_of(const FileContents& contents, const std::string& path) {
  if (!contents.find("split.count")) return Split();
  const auto number = integer(contents, "split.no"), count = integer(contents, "split.count");
  const auto tensors = integer(contents, "split.tensors.count");
  if (!number || !count || !tensors || *number < 0 || *number >= std::max<int64_t>(*count, 1))
    return split_error("bad_split", "the keys split.no, split.count and split.tensors.count do not fit together", path);
  return Split{*number, *count, *tensors};
}

std::string sibling(std::string_view prefix, int64_t number, int64_t count) {
  char suffix[64];
  std::snprintf(suffix, sizeof suffix, "-%05d-of-%05d.gguf", static_cast<int>(number + 1), static_cast<int>(count));
  return std::string(prefix) + suffix;
}

Result<FilePart> open_part(const std::string& path) {
  FilePart part;
  MARTLET_ASSIGN(part.file, MappedFile::open(path));
  MARTLET_ASSIGN(part.contents, parse(part.file->bytes(), path));
  return part;
}

Result<FilePart> open_sibling(const std::string& path, const Split& first, int64_t number) {
  auto part = open_part(path);
  if (!part && part.error().code == "file_not_found")
    return split_error("missing_part", "a part of the split model is not there; fetch the whole model", path);
  if (!part) return std::move(part.error());
  MARTLET_ASSIGN(const Split split, split_of(part->contents, path));
  if (split.number != number || split.count != first.count || split.tensors != first.tensors)
    return split_error("bad_split", "this part belongs to another model or another place", path);
  return part;
}

}  // namespace

Result<std::vector<FilePart>> open(const std::string& path) {
  std::vector<FilePart> parts;
  MARTLET_ASSIGN(FilePart given, open_part(path));
  MARTLET_ASSIGN(const Split split, split_of(given.contents, path));
  if (split.count <= 1) {
    parts.push_back(std::move(given));
    return parts;
  }
  const std::string_view prefix = std::string_view(path).substr(0, path.size() - std::min(path.size(), kSuffixBytes));
  if (sibling(prefix, split.number, split.count) != path)
    return split_error("bad_split", "a part of a split model must keep its name, NAME-00001-of-00003.gguf", path);
  size_t tensors = 0;
  for (int64_t i = 0; i < split.count; ++i) {
    if (i == split.number) {
      parts.push_back(std::move(given));
    } else {
      MARTLET_ASSIGN(FilePart part, open_sibling(sibling(prefix, i, split.count), split, i));
      parts.push_back(std::move(part));
    }
    tensors += parts.back().contents.tensors.size();
  }
  if (tensors != static_cast<size_t>(split.tensors))
    return split_error("bad_split", "the parts hold another number of tensors than the model has", path);
  return parts;
}

}  // namespace martlet::gguf
