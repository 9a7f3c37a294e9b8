#include "plan/planner.h"

namespace martlet {
namespace {

// Heap of a tokenizer for each token and each merge, and of the index for each name, measured over vocabularies from
// 32 to 262 thousand tokens.
constexpr int64_t kTokenBytes = 72, kMergeBytes = 32, kNameBytes = 160;

int64_t count(const ModelFile& file, const char* key) {
  const StringArray* strings = file.strings(key);
  return strings ? static_cast<int64_t>(strings->size()) : 0;
}

}  // namespace

Result<ModelNeeds> model_needs(const ModelFile& file, const Backend& backend) {
  ModelNeeds needs;
  MARTLET_ASSIGN(needs.h, read_hyperparameters(file));
  needs.weight_bytes = weight_bytes(file, backend);
  needs.bytes_per_token_read = bytes_read_per_token(file, backend);
  needs.copy_bytes = copy_bytes(file, backend);
  needs.text_bytes = count(file, "tokenizer.ggml.tokens") * kTokenBytes +
                     count(file, "tokenizer.ggml.merges") * kMergeBytes +
                     static_cast<int64_t>(file.tensors().size()) * kNameBytes;
  return needs;
}

}  // namespace martlet
