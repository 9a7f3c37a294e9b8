#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "file/model_file.h"

namespace martlet {

// What one file says, whatever its format. Borrowed from the file's bytes.
struct FileContents {
  std::vector<std::pair<std::string_view, Metadata>> metadata;
  std::vector<NamedTensor> tensors;

  const Metadata* find(
      std::string_view key) const;  // linear: for the few keys that are needed before there is an index
};

// One file of a model, which may consist of several. `file` is null when the bytes belong to someone else.
struct FilePart {
  std::shared_ptr<const MappedFile> file;
  FileContents contents;
};

}  // namespace martlet
