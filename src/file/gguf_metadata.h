#pragma once

#include "file/contents.h"
#include "file/gguf_cursor.h"

namespace martlet::gguf {

// Reads `count` keys and their values. Returns the alignment that they set, or the default.
Result<uint64_t> read_metadata(Cursor& cursor, uint64_t count, decltype(FileContents::metadata)& out);

}  // namespace martlet::gguf
