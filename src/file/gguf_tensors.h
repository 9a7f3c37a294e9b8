#pragma once

#include "file/contents.h"
#include "file/gguf_cursor.h"

namespace martlet::gguf {

// Reads the descriptions of `count` tensors and points each into the data section, which starts at the next multiple of
// `alignment` and which they must neither leave nor share.
Status read_tensors(Cursor& cursor, uint64_t count, uint64_t alignment, std::span<const std::byte> bytes,
                    std::vector<NamedTensor>& out);

}  // namespace martlet::gguf
