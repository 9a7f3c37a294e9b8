#include "cli/model_summary.h"

#include <algorithm>
#include <map>

namespace martlet::cli {
namespace {

constexpr struct {
  std::string_view label, key;
} kHyperParameters[] = {
    {"layers", "block_count"},
    {"width", "embedding_length"},
    {"feed-forward width", "feed_forward_length"},
    {"heads", "attention.head_count"},
    {"key-value heads", "attention.head_count_kv"},
    {"experts", "expert_count"},
    {"experts a token", "expert_used_count"},
    {"sliding window", "attention.sliding_window"},
};

std::vector<FormatUse> formats_of(const ModelFile& file) {
  std::map<Format, FormatUse> uses;
  for (const NamedTensor& tensor : file.tensors()) {
    FormatUse& use = uses[tensor.view.format];
    use.format = tensor.view.format;
    ++use.tensors;
    use.bytes += tensor.view.bytes();
  }
  std::vector<FormatUse> out;
  for (const auto& [format, use] : uses) out.push_back(use);
  std::ranges::stable_sort(out, std::ranges::greater(), &FormatUse::bytes);
  return out;
}

std::vector<HyperParameter> hyper_parameters_of(const ModelFile& file, const std::string& prefix) {
  std::vector<HyperParameter> out;
  for (const auto& row : kHyperParameters) {
    if (const auto value = file.integer(prefix + std::string(row.key))) out.push_back({row.label, row.key, *value});
  }
  return out;
}

}  // namespace

ModelSummary summarize(const ModelFile& file) {
  const std::string prefix = std::string(file.architecture()) + ".";
  const std::string_view path = file.path();
  ModelSummary out{.name = file.string("general.name").value_or(path.substr(path.rfind('/') + 1)),
                   .architecture = file.architecture(),
                   .formats = formats_of(file),
                   .hyper_parameters = hyper_parameters_of(file, prefix),
                   .context_length = file.integer(prefix + "context_length"),
                   .tokenizer = file.string("tokenizer.ggml.model").value_or(""),
                   .pre_tokenizer = file.string("tokenizer.ggml.pre").value_or(""),
                   .vocabulary = Tokenizer::create(file),
                   .chat_template = file.string("tokenizer.chat_template")};
  for (const auto& part : file.files()) {
    out.files.push_back(part->path());
    out.bytes += part->bytes().size();
  }
  for (const NamedTensor& tensor : file.tensors()) out.parameters += tensor.view.columns() * tensor.view.rows();
  const StringArray* tokens = file.strings("tokenizer.ggml.tokens");
  out.vocabulary_size = tokens ? tokens->size() : 0;
  return out;
}

}  // namespace martlet::cli
