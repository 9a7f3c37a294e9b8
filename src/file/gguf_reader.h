#pragma once

#include <span>
#include <string>

#include "file/contents.h"

namespace martlet::gguf {

// Parses one GGUF file, or one part of a split model, from memory. The result borrows from `bytes`. Costs a few dozen
// bytes for each key, tensor and array string; every size in the file is checked before it is used.
// Errors (ErrorKind::model, `name`@offset): bad_header, count_exceeds_file, too_many_entries, duplicate_name, bad_kv,
// bad_tensor, bad_alignment, size_overflow, bad_shape, tensor_out_of_file.
Result<FileContents> parse(std::span<const std::byte> bytes, const std::string& name);

// Maps and parses `path` and, for a split model, all its parts, in order. Further errors: those of MappedFile::open,
// missing_part, bad_split.
Result<std::vector<FilePart>> open(const std::string& path);

}  // namespace martlet::gguf
