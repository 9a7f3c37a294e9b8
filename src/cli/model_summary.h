#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "file/model_file.h"
#include "text/tokenizer.h"

namespace martlet::cli {

struct FormatUse {
  Format format;
  int64_t tensors = 0, bytes = 0;
};

struct HyperParameter {
  std::string_view label, key;  // "layers", "block_count"
  int64_t value;
};

// What `show` says about a model file. Views are borrowed from the file.
struct ModelSummary {
  std::string_view name, architecture;  // name: general.name, else the file's
  std::vector<std::string> files;
  uint64_t bytes = 0;              // of all files
  int64_t parameters = 0;          // elements of all tensors
  std::vector<FormatUse> formats;  // most bytes first
  std::vector<HyperParameter> hyper_parameters;
  std::optional<int64_t> context_length;
  size_t vocabulary_size = 0;
  std::string_view tokenizer, pre_tokenizer;
  Result<std::shared_ptr<const Tokenizer>> vocabulary;  // or why it cannot be used
  std::optional<std::string_view> chat_template;
};

ModelSummary summarize(const ModelFile& file);

}  // namespace martlet::cli
