#pragma once

// The prompt cache on disk: what a model computed for earlier prompts outlives the process.
//
// A file is a header (magic, fingerprint, page_tokens, page_bytes, number of pages), one record a page (parent, number
// of tokens, page_tokens token ids), the XXH3 of all that, and then each page's bytes with their XXH3. Numbers are
// little endian, 4 or 8 bytes. It is written beside its place and renamed, so there is never half of one under its
// name.

#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "base/function_ref.h"
#include "cache/page_pool.h"
#include "cache/prefix_tree.h"

namespace martlet {

class ModelFile;

struct CacheFile {
  std::string path;
  uint64_t fingerprint = 0;  // of the model and of how its pages look
  int32_t page_tokens = 0, vocabulary = 0;
  int64_t page_bytes = 0;
};

// `format`: whatever else decides what the bytes of a page mean. Reads samples of the weights, not all of them: that
// these are the same weights as before is told by their files' sizes and MappedFile::identity().
uint64_t cache_fingerprint(const ModelFile& file, const std::string& format);

// Pages saved. Without any, and after an error, what was there before stays. Errors: ErrorKind::io, `disk_full` with
// the bytes needed, `io_error`.
Result<int32_t> save_prefixes(const CacheFile& file, const PrefixTree& tree, int64_t scope,
                              FunctionRef<void(Page, std::span<std::byte>)> read_page);

// Pages restored into a tree whose scope is empty, as many as the pool has free; 0 when there is no file. A file that
// is not exactly as it was written, or belongs to another model, is removed: ErrorKind::io, `state_invalid`. One that
// there is no memory to read stays: ErrorKind::memory, `out_of_memory`. Tree and pool are as before then.
Result<int32_t> restore_prefixes(const CacheFile& file, PrefixTree& tree, int64_t scope, PagePool& pool,
                                 FunctionRef<void(Page, std::span<const std::byte>)> write_page);

}  // namespace martlet
